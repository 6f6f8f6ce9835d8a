// `b1`, written from docs/bucketing.md alone. Reads [{salt, key}, …] from standard input, prints the buckets as JSON.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

function bucketOf(salt, key) {
  const separator = Buffer.from([0x1f]);
  const parts = [Buffer.from("b1", "utf8"), separator, Buffer.from(salt, "utf8"), separator, Buffer.from(key, "utf8")];
  const digest = createHash("sha256").update(Buffer.concat(parts)).digest();
  return Number((digest.readBigUInt64BE(0) * 10000n) >> 64n);
}

const asked = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(asked.map(({ salt, key }) => bucketOf(salt, key))));
