import { z } from 'zod'

const text = z.string().min(1).max(8_192)
const texts = z.record(z.string().min(1).max(200), z.string().max(8_192))

/** The credentials of this client at an authorization server: the grant of client credentials. */
const oauth = z.strictObject({
  clientId: text,
  clientSecret: text,
  scopes: z.array(z.string().min(1).max(200).regex(/^\S+$/)).max(50).optional(),
  /** The authorization server that alone may have them; without it the one that the server names. */
  issuer: z.url().max(2_000).optional(),
})

/** What is ours in an entry, beside what every client of MCP reads. */
const ours = z.strictObject({
  summary: z.string().trim().min(1).max(200).optional(),
  whenToUse: z.array(z.string().min(1).max(200)).max(10).optional(),
  access: z.enum(['granted', 'everyone']).default('granted'),
  trust: z.enum(['hints', 'none']).default('hints'),
  tools: z.array(z.string().min(1).max(100)).max(200).optional(),
  timeoutMs: z.number().int().min(1_000).max(600_000).default(60_000),
  oauth: oauth.optional(),
  disabled: z.boolean().default(false),
})

/** An entry as Claude Desktop, Cursor and VS Code write it. What it has beside these keys is theirs and is not read. */
export const entrySchema = z.object({
  command: text.optional(),
  args: z.array(z.string().max(8_192)).max(100).default([]),
  env: texts.default({}),
  cwd: text.optional(),
  url: text.optional(),
  headers: texts.default({}),
  type: z.enum(['stdio', 'http', 'streamable-http', 'sse']).optional(),
  disabled: z.boolean().optional(),
  oracle: ours.prefault({}),
})

/** One entry, read. */
export type Entry = z.output<typeof entrySchema>
