// Builds the page: `node build.mjs OUT` bundles src/ and styles/ into OUT, with names that change with the content.
// scripts/build_page.py calls it. Each file has its gzip beside it, so that the gateway compresses nothing.

import { build } from "esbuild";
import { copyFile, mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { constants, gzipSync } from "node:zlib";

const COMPRESSED = /\.(html|css|js|svg|txt|webmanifest)$/;
const out = process.argv[2];
await mkdir(out, { recursive: true });

/** In the place of what markdown-it imports: less to load at the start. */
const INSTEAD = { "linkify-it": "no_addresses.ts", "uc.micro": "punctuation.ts", entities: "entities.ts" };
const lighterMarkdown = {
  name: "lighter-markdown",
  setup({ onResolve }) {
    onResolve({ filter: /^(linkify-it|uc\.micro|entities)$/ }, ({ path, importer }) =>
      /node_modules[\\/]markdown-it[\\/]/.test(importer) ? { path: resolve("src", INSTEAD[path]) } : undefined);
  },
};

const { metafile } = await build({
  entryPoints: { app: "src/app.ts", style: "styles/style.css", views: "styles/views.css", icon: "icon.svg" },
  outdir: out,
  bundle: true,
  format: "esm",
  splitting: true,
  minify: true,
  target: ["es2022"],
  alias: {
    react: "preact/compat",
    "react-dom": "preact/compat",
    "react/jsx-runtime": "preact/jsx-runtime",
  },
  plugins: [lighterMarkdown],
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".svg": "copy" },
  entryNames: "[name]-[hash]",
  chunkNames: "part-[hash]",
  legalComments: "none", // licenses.txt has every licence whole
  preserveSymlinks: true, // names depend on nothing but the content
  metafile: true,
  logLevel: "warning",
});

/** The name that an entry's output got. */
function builtName(entry) {
  const [path] = Object.entries(metafile.outputs).find(([, output]) => output.entryPoint === entry || entry in output.inputs && !output.entryPoint);
  return basename(path);
}

const names = { "app.js": builtName("src/app.ts"), "style.css": builtName("styles/style.css"), "views.css": builtName("styles/views.css"), "icon.svg": builtName("icon.svg") };
const page = (await readFile("index.html", "utf8")).replace(/(?<="\/page\/)[a-z.]+(?=")/g, (name) => names[name] ?? name);
await writeFile(join(out, "index.html"), page.replace("</head>", `${preloads()}</head>`));
for (const name of ["worker.js", "manifest.webmanifest", "icon-192.png", "icon-512.png"]) await copyFile(name, join(out, name));
await writeFile(join(out, "licenses.txt"), await licenses());
for (const name of await readdir(out)) {
  if (!COMPRESSED.test(name)) continue;
  const body = await readFile(join(out, name));
  const packed = gzipSync(body, { level: constants.Z_BEST_COMPRESSION });
  if (packed.length < body.length) await writeFile(join(out, `${name}.gz`), packed);
}

/** Links to the parts that the page's script imports at once: the browser fetches them beside it, not after it. */
function preloads() {
  const script = Object.values(metafile.outputs).find((output) => output.entryPoint === "src/app.ts");
  const parts = script.imports.filter(({ kind }) => kind === "import-statement");
  return parts.map(({ path }) => `<link rel="modulepreload" href="/page/${basename(path)}">\n`).join("");
}

/** The licence of every package that is in the bundle, whole, as most of them ask. */
async function licenses() {
  const packages = new Set();
  for (const path of Object.keys(metafile.inputs)) {
    const [, name] = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
    if (name) packages.add(name);
  }
  const texts = [];
  for (const name of [...packages].sort()) {
    const folder = join("node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((each) => /^licen[cs]e/i.test(each));
    const text = file ? await readFile(join(folder, file), "utf8") : "";
    texts.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
  }
  return texts.length ? texts.join(`\n${"-".repeat(78)}\n\n`) : "The page holds no code of others.\n";
}
