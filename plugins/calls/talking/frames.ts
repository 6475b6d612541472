import { z } from 'zod'

/** The time in the packet of the agent's sound that the page was playing as it said something. */
const heard = z
  .number()
  .int()
  .min(0)
  .max(2 ** 32 - 1)
  .optional()
  .catch(undefined)

/** What a page says by the data channel. Unknown types are passed over. */
export const fromPage = z.discriminatedUnion('type', [
  z.object({ type: z.literal('hello'), v: z.literal(1) }),
  z.object({ type: z.literal('beat') }),
  z.object({
    type: z.literal('say'),
    id: z.string().min(1).max(100),
    text: z.string().max(8_000),
    by: z.enum(['typed', 'recognized']).default('typed'),
    heard,
  }),
  z.object({ type: z.literal('partial'), text: z.string().max(8_000), heard }),
  z.object({ type: z.literal('stop'), heard }),
  z.object({ type: z.literal('heard'), heard }),
  z.object({
    type: z.literal('spoken'),
    id: z.string().min(1).max(100),
    chars: z.number().int().min(0).max(10_000),
  }),
  z.object({ type: z.literal('bye') }),
])

/** What a page said. */
export type PageFrame = z.infer<typeof fromPage>

/** How the call stands, as the page shows it. */
export type CallState = 'listening' | 'thinking' | 'speaking' | 'held' | 'waiting' | 'ended'

/** What the agent says by the data channel. */
export type AgentFrame =
  | {
      readonly type: 'ready'
      readonly callId: string
      readonly voice: string
      readonly hearing: string
    }
  | { readonly type: 'state'; readonly state: CallState }
  | {
      readonly type: 'caption'
      readonly id: string
      readonly who: 'you' | 'agent'
      readonly text: string
      readonly isFinal: boolean
    }
  | { readonly type: 'hold' }
  | { readonly type: 'go' }
  | { readonly type: 'say'; readonly id: string; readonly text: string }
  | { readonly type: 'tool'; readonly name: string; readonly status: string }
  | {
      readonly type: 'approval'
      readonly runId: string
      readonly toolName: string
      readonly args: Readonly<Record<string, unknown>>
      readonly toolCallId: string
      /** The sentence by which the tool itself asks. */
      readonly question?: string
    }
  | { readonly type: 'decided'; readonly runId: string }
  | { readonly type: 'notice'; readonly code: string; readonly text: string }
  | { readonly type: 'ended'; readonly by: string }

/** Reads a frame. Undefined for what is none. */
export function readFrame(text: string): PageFrame | undefined {
  try {
    const parsed = fromPage.safeParse(JSON.parse(text))
    return parsed.success ? parsed.data : undefined
  } catch {
    return undefined
  }
}
