// What the page shows only when somebody asks for it, loaded as one part: were it several, the code that they share with
// the start would come in more files, and be larger.

export * from "./command_menu.tsx";
export * from "./found.ts";
export * from "./row_menu.ts";
export * from "./settings.tsx";
export * from "./views/views.tsx";
