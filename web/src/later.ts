// What the page shows only when somebody asks for it, loaded as one part: were it several, the code that they share with
// the start would come in more files, and be larger.

export * from "./command_menu.tsx";
export * from "./found.ts";
export * from "./gateways_dialog.tsx";
export * from "./key_sheet.tsx";
export * from "./lightbox.tsx";
export * from "./login_dialog.tsx";
export * from "./row_menu.tsx";
export * from "./session_menu.tsx";
export * from "./settings.tsx";
export * from "./views/views.tsx";
