// Makes a picture with JavaScript, also as TypeScript: node picture.mjs "what to draw" file.png
// URL and KEY are the server's address and an API key of yours.
import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";

const ATTEMPTS = 4;
// What may go otherwise a moment later; with an idempotency key nothing is made or paid twice.
const LATER = new Set([409, 429, 503, 504]);

async function call(model, body) {
  const headers = {
    "X-API-Key": process.env.KEY,
    "Content-Type": "application/json",
    "Idempotency-Key": randomUUID(),
  };
  for (let attempt = 1; ; attempt += 1) {
    const answer = await fetch(`${process.env.URL}/v2/models/${model}`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(600_000),
    });
    if (answer.ok) {
      return { content: await answer.json(), credits: answer.headers.get("x-service-credits-used") };
    }
    if (!LATER.has(answer.status) || attempt === ATTEMPTS) {
      throw new Error(`status ${answer.status}, ${answer.headers.get("x-service-error-type")}\n${await answer.text()}`);
    }
    const seconds = Number(answer.headers.get("retry-after") ?? attempt);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  }
}

const [prompt, file] = process.argv.slice(2);
try {
  const { content, credits } = await call("local/procedural-image-1", { prompt, width: 256, height: 192 });
  await writeFile(file, Buffer.from(content.data[0].b64_json, "base64"));
  console.log(`${file}: ${credits} credits`);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
