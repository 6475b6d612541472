import {
  CLIENT_CAPABILITIES_META_KEY,
  type CallToolRequest,
  type CallToolResult,
  createMcpHandler,
  type InputRequests,
  type InputRequiredResult,
  inputRequired,
  type jsonSchemaValidator,
  type JsonSchemaValidatorResult,
  type McpHttpHandler,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { type Log, type OutsideTool, type OutsideTools, RuntimeError, type Turns } from '#core'
import { answerOf, errorAnswer, failed, mostResultBytes, questionOf } from './answers.ts'
import { ask } from './ask.ts'
import type { Caller } from './caller.ts'
import type { AskedCall, Consents, Sealed } from './consent.ts'
import { askName, mayApprove, offeredTo } from './offered.ts'
import { AsksClient, type Questions, withClient } from './questions.ts'

/** What the protocol is spoken over. */
export interface ProtocolParts {
  readonly tools: OutsideTools
  readonly turns: Turns
  readonly consents: Consents
  readonly log: Log
  readonly version: string
}

/** The protocol, as it answers web requests. */
export interface Protocol extends Pick<McpHttpHandler, 'close'> {
  answer(request: Request, body: unknown, caller: Caller): Promise<Response>
}

const fiveMinutes = { ttlMs: 300_000, cacheScope: 'private' as const }
const capabilities = { tools: {} }
const longestNote = 200

/** Nothing that a client sends is carried out as a schema: our own tools check their arguments themselves. */
const checksNothing: jsonSchemaValidator = {
  getValidator:
    <T>() =>
    // Nobody reads what it returns: the package wants it to be of the type that the schema describes.
    (input: unknown): JsonSchemaValidatorResult<T> => ({
      valid: true,
      data: input as T,
      errorMessage: undefined,
    }),
}

/** Speaks the protocol. Every request has a server object of its own, so that any replica answers it. */
export function openProtocol(parts: ProtocolParts): Protocol {
  const callers = new WeakMap<Request, Caller>()
  const options = {
    capabilities,
    instructions: 'Tools of an agent, and "ask", which is the agent itself.',
    jsonSchemaValidator: checksNothing,
    inputRequired: { legacyShim: false },
    cacheHints: { 'tools/list': fiveMinutes, 'server/discover': fiveMinutes },
  }
  const info = { name: 'oracle-runtime', version: parts.version }
  const handler = createMcpHandler(
    ({ era, requestInfo }) => {
      const caller = requestInfo && callers.get(requestInfo)
      if (!caller) throw new Error('A request of the protocol has no caller.')
      const server = new Server(info, options)
      server.setRequestHandler('tools/list', async () => ({
        tools: await offeredTo(caller.user, parts.tools, caller.plugins),
      }))
      server.setRequestHandler('tools/call', ({ params }, ctx) =>
        new Call(params, ctx, caller, parts, era === 'modern').answer(),
      )
      return server
    },
    { onerror: (err) => parts.log.debug({ err }, 'a request to /mcp was refused') },
  )
  return {
    close: () => handler.close(),
    answer(request, body, caller) {
      callers.set(request, caller)
      return handler.fetch(request, { parsedBody: body })
    },
  }
}

type Answer = CallToolResult | InputRequiredResult

/** One call of a tool, from its name to its answer. */
class Call {
  readonly #params: CallToolRequest['params']
  readonly #ctx: ServerContext
  readonly #caller: Caller
  readonly #parts: ProtocolParts
  /** The revision has a form in which the client can be asked for something. */
  readonly #hasQuestions: boolean

  constructor(
    params: CallToolRequest['params'],
    ctx: ServerContext,
    caller: Caller,
    parts: ProtocolParts,
    hasQuestions: boolean,
  ) {
    this.#params = params
    this.#ctx = ctx
    this.#caller = caller
    this.#parts = parts
    this.#hasQuestions = hasQuestions
  }

  /** Answers the call. What the tool fails with is an answer too; what is wrong with the request is an error of the protocol. */
  async answer(): Promise<Answer> {
    const { name, arguments: args = {} } = this.#params
    try {
      if (name === askName) return await this.#ask(args)
      return await this.#call(name, args)
    } catch (error) {
      if (error instanceof ProtocolError) throw error
      if (error instanceof RuntimeError) return errorAnswer(error)
      this.#parts.log.error({ err: error, tool: name }, 'a call over MCP failed')
      return failed('The call failed.', 'INTERNAL', 'The log of the oracle has the cause.')
    }
  }

  #ask(args: unknown): Promise<CallToolResult> {
    return ask(args, this.#caller, this.#parts.turns, {
      signal: this.#ctx.mcpReq.signal,
      progress: (done, note) => this.#progress(done, undefined, note),
    })
  }

  async #call(name: string, args: Readonly<Record<string, unknown>>): Promise<Answer> {
    const { user, requestId } = this.#caller
    const { tools, consents } = this.#parts
    const tool = this.#toolOf(name)
    const asked: AskedCall = { did: user.did, tool: name, args }
    const sealed = this.#brought(asked)
    const decision = user.can(mayApprove) ? 'approve' : await this.#decisionIn(sealed)
    if (decision === 'reject')
      return failed(`The user was asked about "${name}" and said no.`, 'REJECTED')
    try {
      const called = await withClient(this.#client(sealed?.round?.kept), () =>
        tools.call({
          ...{ user, name, args, requestId, maxResultBytes: mostResultBytes },
          signal: this.#ctx.mcpReq.signal,
          ...(decision && { decided: decision }),
          ...(this.#canAsk && { approvals: 'events' as const }),
          onProgress: (done, total, note) => this.#progress(done, total, note),
        }),
      )
      return answerOf(called, tool)
    } catch (error) {
      if (error instanceof AsksClient && this.#hasQuestions) {
        const { kept, questions } = error
        const round = { kept, isApproved: decision === 'approve' }
        return asking(questions, consents.seal(asked, round))
      }
      const isToAsk = error instanceof RuntimeError && error.code === 'APPROVAL_NEEDED'
      if (!isToAsk || decision) throw error
      return this.#canAsk ? questionAbout(asked, consents) : nobodyToAsk(name)
    }
  }

  #toolOf(name: string): OutsideTool {
    const { tool, plugins } = this.#caller
    if (tool && (plugins?.has(tool.plugin) ?? true)) return tool
    const message = `There is no tool called "${name.slice(0, 64)}".`
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, message)
  }

  /** The state that came with the call, where there is one. One that is not ours, or not of this very call, is refused. */
  #brought(asked: AskedCall): Sealed | undefined {
    const state = this.#hasQuestions ? this.#ctx.mcpReq.requestState() : undefined
    if (state === undefined) return undefined
    const sealed = typeof state === 'string' ? this.#parts.consents.open(state, asked) : undefined
    if (!sealed) throw wrongState()
    return sealed
  }

  /**
   * What a person decided about this very call. Only an answer that comes with our own seal of the call counts: a first request
   * that brings a yes along has been asked by nobody.
   */
  async #decisionIn(sealed: Sealed | undefined): Promise<'approve' | 'reject' | undefined> {
    if (!sealed) return undefined
    const { round } = sealed
    if (round && !round.isApproved) return undefined
    if (!round) {
      const answer = this.#ctx.mcpReq.inputResponses?.approve
      if (typeof answer !== 'object' || answer === null) return undefined
      if (!saysYes(answer)) return 'reject'
    }
    if (await this.#parts.consents.use(sealed)) return 'approve'
    throw usedState()
  }

  /** The client, as the tool may ask it. */
  #client(kept: unknown) {
    const { inputResponses, envelope } = this.#ctx.mcpReq
    const answers = this.#hasQuestions ? { ...inputResponses } : {}
    return {
      answers,
      kept,
      can: (what: 'elicitation' | 'sampling' | 'roots') =>
        this.#hasQuestions &&
        (what === 'elicitation' ? showsForms(envelope) : what in declaredIn(envelope)),
    }
  }

  /** Whether the client shows questions to its person. */
  get #canAsk(): boolean {
    if (!this.#hasQuestions) return false
    return showsForms(this.#ctx.mcpReq.envelope)
  }

  #progress(done: number, total?: number, note?: string): void {
    const { mcpReq } = this.#ctx
    const progressToken = tokenIn(mcpReq)
    if (progressToken === undefined) return
    const message = note?.slice(0, longestNote).toWellFormed()
    const params = {
      ...{ progressToken, progress: done },
      ...(total !== undefined && { total }),
      ...(message && { message }),
    }
    // Whoever has left hears of no progress.
    mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined)
  }
}

/** By what the client wants to be told of progress; undefined where it does not want to. */
function tokenIn(request: object): string | number | undefined {
  const meta: unknown = Reflect.get(request, '_meta')
  const { progressToken }: Readonly<Record<string, unknown>> = Object(meta)
  return typeof progressToken === 'string' || typeof progressToken === 'number'
    ? progressToken
    : undefined
}

/** Whether a client declares with its request that it shows forms: an empty declaration of elicitation means forms. */
function showsForms(envelope: object | undefined): boolean {
  const { elicitation } = declaredIn(envelope)
  if (typeof elicitation !== 'object' || elicitation === null) return false
  return Object.keys(elicitation).length === 0 || Reflect.get(elicitation, 'form') !== undefined
}

/** What a client declares with its request that it can be asked for. */
function declaredIn(envelope: object | undefined): Readonly<Record<string, unknown>> {
  return Object(envelope && Reflect.get(envelope, CLIENT_CAPABILITIES_META_KEY))
}

const saysYes = (answer: object): boolean => {
  const content: unknown = Reflect.get(answer, 'content')
  return (
    Reflect.get(answer, 'action') === 'accept' &&
    typeof content === 'object' &&
    content !== null &&
    Reflect.get(content, 'approve') === true
  )
}

const questionAbout = (asked: AskedCall, consents: Consents): InputRequiredResult =>
  inputRequired({
    inputRequests: {
      approve: inputRequired.elicit({
        message: questionOf(asked.tool, asked.args),
        requestedSchema: {
          type: 'object',
          properties: { approve: { type: 'boolean', title: 'Run it' } },
          required: ['approve'],
        },
      }),
    },
    requestState: consents.seal(asked),
  })

/** The questions of a tool. What the client has not declared is refused by the package, with the code of the protocol. */
const asking = (questions: Questions, requestState: string): InputRequiredResult =>
  inputRequired({
    // The package checks every one of them before it goes out.
    inputRequests: questions as InputRequests,
    requestState,
  })

const nobodyToAsk = (name: string): CallToolResult =>
  failed(
    `"${name}" asks a person before it runs, and this client cannot ask.`,
    'APPROVAL_NEEDED',
    'Ask for it in a client that shows approvals, or let this key approve (tools/approve).',
  )

const wrongState = () =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, 'Invalid or expired requestState', {
    reason: 'invalid_request_state',
  })

const usedState = () =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, 'This consent was used already', {
    reason: 'used_request_state',
  })
