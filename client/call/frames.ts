/** What the page says by the data channel. */
export type PageFrame =
  | { readonly type: 'hello'; readonly v: 1 }
  | { readonly type: 'beat' | 'stop' | 'bye' | 'heard' }
  | {
      readonly type: 'say'
      readonly id: string
      readonly text: string
      readonly by: 'typed' | 'recognized'
    }
  | { readonly type: 'partial'; readonly text: string }
  | { readonly type: 'spoken'; readonly id: string; readonly chars: number }

/** What the agent says by the data channel. */
export type AgentFrame =
  | { readonly type: 'ready'; readonly callId: string }
  | {
      readonly type: 'state'
      readonly state: 'listening' | 'thinking' | 'speaking' | 'held' | 'waiting' | 'ended'
    }
  | {
      readonly type: 'caption'
      readonly id: string
      readonly who: 'you' | 'agent'
      readonly text: string
      readonly isFinal: boolean
    }
  | { readonly type: 'hold' | 'go' }
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

/** Reads a frame of the agent. A frame that is none, or of a type that came later, is nothing. */
export function readFrame(data: unknown): AgentFrame | undefined {
  try {
    const frame: unknown = JSON.parse(String(data))
    return typeof frame === 'object' && frame !== null && 'type' in frame
      ? (frame as AgentFrame)
      : undefined
  } catch {
    return undefined
  }
}
