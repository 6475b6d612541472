import { z } from 'zod'

/** The largest body. Histories are long. */
export const bodyBytes = 4 * 1024 * 1024
const mostMessages = 20_000
const mostTools = 200

const role = z.enum(
  ['system', 'developer', 'user', 'assistant', 'tool'],
  'expected system, developer, user, assistant or tool',
)

/** A piece of a message. What is not known is refused where it stands in the message that is answered. */
const part = z.looseObject({
  type: z.string().max(100),
  text: z.string().optional(),
  image_url: z.looseObject({ url: z.string() }).optional(),
})
/** A piece of what was said. */
export type ContentPart = z.output<typeof part>

const message = z.looseObject({
  role,
  content: z.union([z.string(), z.array(part).max(200)]).nullish(),
  tool_call_id: z.string().max(300).optional(),
})
/** A message as a client sends it. */
export type ChatMessage = z.output<typeof message>

const tool = z.looseObject({
  type: z.literal('function', 'expected "function": other kinds of tools are not served here'),
  function: z.looseObject({
    name: z.string().max(200),
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.unknown()).nullish(),
  }),
})

/** A field that is not served, unless it has the value that means nothing. */
const only = (allowed: (value: unknown) => boolean, message: string) =>
  z
    .unknown()
    .refine((value) => value === undefined || value === null || allowed(value), message)
    .optional()

const isText = (format: unknown) =>
  typeof format === 'object' && format !== null && 'type' in format && format.type === 'text'

/** The body of `POST /openai/v1/chat/completions`. Fields that steer how a model draws its words are taken and not used. */
export const chatInput = z.looseObject({
  model: z.string().min(1).max(200),
  messages: z.array(message).min(1).max(mostMessages),
  stream: z.boolean().nullish(),
  stream_options: z
    .looseObject({ include_usage: z.boolean().nullish(), include_steps: z.boolean().nullish() })
    .nullish(),
  tools: z.array(tool).max(mostTools, `expected at most ${mostTools} tools`).nullish(),
  tool_choice: only(
    (choice) => choice === 'auto' || choice === 'none',
    'expected "auto" or "none": the agent decides itself which tools it calls',
  ),
  n: only((n) => n === 1, 'expected 1: the agent answers once'),
  logprobs: only((on) => on === false, 'the agent gives no logprobs'),
  top_logprobs: only((n) => n === 0, 'the agent gives no logprobs'),
  response_format: only(isText, 'expected { "type": "text" }: the agent answers in words'),
  functions: only(() => false, 'use "tools"'),
  function_call: only(() => false, 'use "tools"'),
  modalities: only(
    (list) => Array.isArray(list) && list.every((each) => each === 'text'),
    'expected ["text"]',
  ),
  audio: only(() => false, 'the agent answers in words'),
  metadata: z.record(z.string(), z.unknown()).nullish(),
})
/** A request, parsed. */
export type ChatRequest = z.output<typeof chatInput>

/** The words of a message, without its pictures. */
export const wordsOf = ({ content }: ChatMessage): string =>
  typeof content === 'string'
    ? content
    : (content ?? []).flatMap(({ type, text }) => (type === 'text' && text ? text : [])).join('\n')
