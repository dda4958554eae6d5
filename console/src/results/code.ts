/** The call that a form makes, as commands and programs: the key stays in the reader's environment. */
export type Language = "curl" | "Python" | "TypeScript";

export const LANGUAGES: readonly Language[] = ["curl", "Python", "TypeScript"];

export function codeOf(language: Language, origin: string, model: string, body: Record<string, unknown>): string {
  const url = `${origin}/v2/models/${model}`;
  const json = JSON.stringify(body, null, 2);
  switch (language) {
    case "curl":
      return [
        `curl -sS ${url} \\`,
        `  -H "X-API-Key: $FAIRLEAD_KEY" \\`,
        `  -H "Content-Type: application/json" \\`,
        `  -d '${json.replaceAll("'", `'\\''`)}'`,
      ].join("\n");
    case "Python":
      return [
        "import os",
        "",
        "import httpx",
        "",
        "answer = httpx.post(",
        `    "${url}",`,
        `    headers={"X-API-Key": os.environ["FAIRLEAD_KEY"]},`,
        `    json=${indent(pythonOf(body, 0), 4)},`,
        "    timeout=600,",
        ")",
        "answer.raise_for_status()",
        "print(answer.json())",
      ].join("\n");
    case "TypeScript":
      return [
        `const answer = await fetch("${url}", {`,
        '  method: "POST",',
        "  headers: {",
        '    "X-API-Key": process.env.FAIRLEAD_KEY!,',
        '    "Content-Type": "application/json",',
        "  },",
        `  body: JSON.stringify(${indent(json, 2)}),`,
        "});",
        "if (!answer.ok) throw new Error(await answer.text());",
        "console.log(await answer.json());",
      ].join("\n");
  }
}

function indent(text: string, spaces: number): string {
  return text.replaceAll("\n", `\n${" ".repeat(spaces)}`);
}

function pythonOf(value: unknown, depth: number): string {
  const pad = " ".repeat((depth + 1) * 4);
  const end = " ".repeat(depth * 4);
  if (value === null || value === undefined) {
    return "None";
  }
  if (typeof value === "boolean") {
    return value ? "True" : "False";
  }
  if (Array.isArray(value)) {
    return value.length === 0 ? "[]" : `[\n${value.map((one) => `${pad}${pythonOf(one, depth + 1)},`).join("\n")}\n${end}]`;
  }
  if (typeof value === "object") {
    const entries = Object.entries(value).map(([name, one]) => `${pad}${JSON.stringify(name)}: ${pythonOf(one, depth + 1)},`);
    return entries.length === 0 ? "{}" : `{\n${entries.join("\n")}\n${end}}`;
  }
  return JSON.stringify(value);
}
