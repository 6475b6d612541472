import { AsyncLocalStorage } from 'node:async_hooks'
import { RuntimeError } from '#core'

/** What a client of the protocol may be asked for: a form for its person, an answer of its model, its folders. */
export type Question =
  | { readonly method: 'elicitation/create'; readonly params: Readonly<Record<string, unknown>> }
  | {
      readonly method: 'sampling/createMessage'
      readonly params: Readonly<Record<string, unknown>>
    }
  | { readonly method: 'roots/list'; readonly params?: Readonly<Record<string, unknown>> }

/** Questions by names of the tool's own, under which the answers come back. */
export type Questions = Readonly<Record<string, Question>>

/** The client that calls a tool at `/mcp`, as the tool sees it. */
export interface McpClient {
  /** What the client answered, by the names of the questions: words of the client, to be checked as arguments are. */
  readonly answers: Readonly<Record<string, unknown>>
  /** What the tool kept when it asked; undefined in the first round. */
  readonly kept: unknown
  /** Whether the client says that it can be asked for this. */
  can(what: 'elicitation' | 'sampling' | 'roots'): boolean
  /**
   * Ends this call with questions. The client calls again with the same arguments and its answers; `kept` comes back with them,
   * sealed, so that the client cannot change it. To be called before the tool has changed anything.
   */
  ask(questions: Questions, kept?: unknown): never
}

/** How much a tool can keep from one round to the next, as JSON. */
const mostKept = 4_000
const mostQuestions = 20

/** Thrown by `ask`, and turned into a result of the protocol by the door. */
export class AsksClient extends RuntimeError {
  readonly questions: Questions
  readonly kept: unknown

  constructor(questions: Questions, kept: unknown) {
    super('INPUT_NEEDED', 'The tool needs an answer of the client that calls it.', {
      status: 409,
      hint: 'Call it from a client of MCP 2026-07-28 that can be asked.',
    })
    this.questions = questions
    this.kept = kept
  }
}

const calling = new AsyncLocalStorage<McpClient>()

/**
 * The client on whose behalf the running tool was called at `/mcp`, and undefined in a turn: there the tool has the model to ask
 * the user.
 */
export const mcpClient = (): McpClient | undefined => calling.getStore()

/** Runs a call whose tool may ask the client. */
export const withClient = <T>(
  client: Pick<McpClient, 'answers' | 'kept' | 'can'>,
  work: () => Promise<T>,
): Promise<T> => calling.run({ ...client, ask }, work)

function ask(questions: Questions, kept?: unknown): never {
  const count = Object.keys(questions).length
  if (count === 0 || count > mostQuestions)
    throw new Error(`A tool asks 1 to ${mostQuestions} questions at a time, and not ${count}.`)
  if ((JSON.stringify(kept) ?? '').length > mostKept)
    throw new Error(`A tool keeps at most ${mostKept} characters from one round to the next.`)
  throw new AsksClient(questions, kept)
}
