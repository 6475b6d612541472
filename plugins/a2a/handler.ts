import type {
  AgentCard,
  CancelTaskRequest,
  GetTaskRequest,
  ListTasksRequest,
  ListTasksResponse,
  Message,
  SendMessageRequest,
  StreamResponse,
  SubscribeToTaskRequest,
  Task,
} from '@a2a-js/sdk'
import type { A2ARequestHandler } from '@a2a-js/sdk/server'
import { randomUUID } from 'node:crypto'
import { RuntimeError, type ListedTurn, type StartedTurn } from '#core'
import type { Context } from 'koa'
import { requestIdOf } from './names.ts'
import { statusOf, take, taskOf, type TaskParts, updatesOf, wholeTask } from './tasks.ts'

/** What a request is answered with. */
export interface HandlerParts extends TaskParts {
  readonly koa: Context
  readonly card: AgentCard
}

/** A turn that has begun as a task. */
interface BegunTask {
  readonly turn: StartedTurn
  readonly ids: { readonly id: string; readonly contextId: string }
  readonly runId: string
}

/** Answers the requests of one caller: a task is a turn, its context a session. */
export class TurnsHandler implements A2ARequestHandler {
  readonly #parts: HandlerParts
  /** What a request failed with that is no error of the protocol: the package would tell it in words of its own. */
  fault: RuntimeError | undefined

  constructor(parts: HandlerParts) {
    this.#parts = parts
  }

  async getAgentCard(): Promise<AgentCard> {
    return this.#parts.card
  }

  sendMessage(request: SendMessageRequest): Promise<Task> {
    return this.#noting(this.#send(request))
  }

  async #send({ message, configuration }: SendMessageRequest): Promise<Task> {
    this.#refusePush(configuration)
    const begun = await this.#begin(message)
    if ('rejected' in begun) return begun.rejected
    const { sdk } = this.#parts
    const { ids, runId } = begun
    if (configuration?.returnImmediately) return taskOf(ids, statusOf(sdk, ids, 'WORKING'))
    const task = taskOf(ids, statusOf(sdk, ids, 'WORKING'))
    for await (const update of updatesOf(this.#parts, ids, runId)) take(task, update)
    return task
  }

  async *sendMessageStream({
    message,
    configuration,
  }: SendMessageRequest): AsyncGenerator<StreamResponse, void, undefined> {
    this.#refusePush(configuration)
    const begun = await this.#begin(message)
    if ('rejected' in begun) {
      yield { payload: { $case: 'task', value: begun.rejected } }
      return
    }
    await begun.turn.spoke
    const { ids, runId } = begun
    const value = taskOf(ids, statusOf(this.#parts.sdk, ids, 'WORKING'))
    yield { payload: { $case: 'task', value } }
    yield* updatesOf(this.#parts, ids, runId)
  }

  getTask({ id }: GetTaskRequest): Promise<Task> {
    return this.#noting(this.#demand(id).then((turn) => this.#task(turn)))
  }

  listTasks(request: ListTasksRequest): Promise<ListTasksResponse> {
    return this.#noting(this.#list(request))
  }

  async #list({ contextId, status, pageSize, pageToken, includeArtifacts }: ListTasksRequest) {
    const { turns, user, sdk } = this.#parts
    const limit = Math.min(Math.max(pageSize ?? 50, 1), 100)
    const wanted = statusesOf[sdk.TaskState[status] ?? '']
    if (wanted?.length === 0) return { tasks: [], nextPageToken: '', pageSize: limit, totalSize: 0 }
    const found = await turns.list({
      ...{ user, limit },
      ...(contextId && { session: contextId }),
      ...(pageToken && { before: pageToken }),
      ...(wanted && { status: wanted }),
    })
    const tasks = await Promise.all(
      found.turns.map(async (turn) => (includeArtifacts ? this.#task(turn) : this.#brief(turn))),
    )
    return { tasks, nextPageToken: found.next ?? '', pageSize: limit, totalSize: tasks.length }
  }

  cancelTask({ id }: CancelTaskRequest): Promise<Task> {
    return this.#noting(this.#cancel(id))
  }

  async #cancel(id: string): Promise<Task> {
    const { turns, user, sdk } = this.#parts
    const turn = await this.#demand(id)
    if (isOver(turn))
      throw new sdk.errors.TaskNotCancelableError(`Task ${id.slice(0, 100)} has ended.`)
    await turns.abort({ user, session: turn.sessionId, requestId: turn.requestId })
    for await (const { event } of turns.events({ user, runId: turn.lastRunId }))
      if (event === 'done' && turn.status !== 'waiting') break
    return this.#task(await this.#demand(id))
  }

  async *resubscribe({
    id,
  }: SubscribeToTaskRequest): AsyncGenerator<StreamResponse, void, undefined> {
    const { sdk } = this.#parts
    const turn = await this.#demand(id)
    if (isOver(turn))
      throw new sdk.errors.UnsupportedOperationError(`Task ${id.slice(0, 100)} has ended.`)
    yield { payload: { $case: 'task', value: this.#brief(turn) } }
    yield* updatesOf(this.#parts, { id: turn.runId, contextId: turn.sessionId }, turn.lastRunId)
  }

  getAuthenticatedExtendedAgentCard(): Promise<never> {
    const { errors } = this.#parts.sdk
    throw new errors.ExtendedAgentCardNotConfiguredError('There is one card, for everybody.')
  }

  createTaskPushNotificationConfig = (): Promise<never> => this.#noPush()
  getTaskPushNotificationConfig = (): Promise<never> => this.#noPush()
  listTaskPushNotificationConfigs = (): Promise<never> => this.#noPush()
  deleteTaskPushNotificationConfig = (): Promise<never> => this.#noPush()

  async #noting<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      if (error instanceof RuntimeError) this.fault = error
      throw error
    }
  }

  async #noPush(): Promise<never> {
    throw new this.#parts.sdk.errors.PushNotificationNotSupportedError(
      'Nothing is pushed here: subscribe to the task.',
    )
  }

  #refusePush(configuration: SendMessageRequest['configuration']): void {
    if (configuration?.taskPushNotificationConfig)
      throw new this.#parts.sdk.errors.PushNotificationNotSupportedError(
        'Nothing is pushed here: subscribe to the task.',
      )
  }

  /** Begins a turn with the words of a message, or goes on with one that has asked; a price that is not paid rejects the task. */
  async #begin(message: Message | undefined): Promise<BegunTask | { readonly rejected: Task }> {
    const { turns, user, koa } = this.#parts
    const { text, contextId, messageId } = await this.#read(message)
    const turn = turns.start({
      ...{ user, message: text, koa, metadata: { protocol: 'a2a' } },
      ...{ approvals: 'words', whenBusy: 'wait' },
      requestId: requestIdOf(messageId),
      ...(contextId && { session: contextId }),
    })
    let sessionId: string
    try {
      ;({ sessionId } = await turn.begun)
    } catch (error) {
      if (!(error instanceof RuntimeError) || error.status !== 402) throw error
      return { rejected: this.#rejected(error, contextId) }
    }
    const runId = await firstRunOf(turn)
    const { turns: found } = await turns.list({ user, runId })
    return { turn, runId, ids: { id: found[0]?.runId ?? runId, contextId: sessionId } }
  }

  #rejected({ message, code, hint }: RuntimeError, contextId: string | undefined): Task {
    const ids = { id: randomUUID(), contextId: contextId ?? randomUUID() }
    const words = hint ? `${message} ${hint}` : message
    const task = taskOf(ids, statusOf(this.#parts.sdk, ids, 'REJECTED', words))
    return { ...task, metadata: { code } }
  }

  /** The words of a message, and the context in which they stand. */
  async #read(message: Message | undefined) {
    const { errors, Role } = this.#parts.sdk
    if (message?.role !== Role.ROLE_USER)
      throw new errors.RequestMalformedError('A message is a user’s: its role is ROLE_USER.')
    if (!message.messageId)
      throw new errors.RequestMalformedError('A message has an id of its own.')
    const pieces = message.parts.map(({ content }) => content)
    const other = pieces.find((content) => content?.$case !== 'text' && content?.$case !== 'data')
    if (other)
      throw new errors.ContentTypeNotSupportedError('A message has parts of text and data here.')
    const text = pieces
      .map((content) =>
        content?.$case === 'text' ? content.value : JSON.stringify(content?.value),
      )
      .join('\n')
    if (text.trim() === '') throw new errors.RequestMalformedError('The message has no words.')
    const { taskId, contextId, messageId } = message
    if (contextId && !isContext(contextId))
      throw new errors.RequestMalformedError(
        'The id of a context has up to 100 characters, none of them a control character, and is not "." or "..".',
      )
    if (!taskId) return { text, messageId, contextId }
    const task = await this.#demand(taskId)
    if (isOver(task))
      throw new errors.UnsupportedOperationError(
        `Task ${taskId.slice(0, 100)} has ended: begin another in its context.`,
      )
    if (contextId && contextId !== task.sessionId)
      throw new errors.RequestMalformedError('The task stands in another context.')
    return { text, messageId, contextId: task.sessionId }
  }

  /** A task of this user. */
  async #demand(id: string): Promise<ListedTurn> {
    const { sdk, turns, user } = this.#parts
    const isName = id.length > 0 && id.length <= 100 && !/\p{Cc}/u.test(id)
    const [turn] = isName ? (await turns.list({ user, runId: id })).turns : []
    if (turn?.runId === id) return turn
    throw new sdk.errors.TaskNotFoundError(`There is no task "${id.slice(0, 100)}".`)
  }

  /** A task with what was said; one whose words are not kept any more is not there. */
  async #task(turn: ListedTurn): Promise<Task> {
    if (turn.status === 'running' || turn.status === 'queued') return this.#brief(turn)
    try {
      return await wholeTask(this.#parts, turn)
    } catch (error) {
      if (error instanceof RuntimeError && (error.code === 'GONE' || error.status === 410))
        throw new this.#parts.sdk.errors.TaskNotFoundError(
          `Task ${turn.runId} is not kept any more.`,
        )
      throw error
    }
  }

  #brief(turn: ListedTurn): Task {
    const { sdk } = this.#parts
    const ids = { id: turn.runId, contextId: turn.sessionId }
    const at = turn.endedAt ?? turn.startedAt
    return taskOf(ids, statusOf(sdk, ids, stateOf[turn.status], undefined, at))
  }
}

const stateOf = {
  queued: 'SUBMITTED',
  running: 'WORKING',
  waiting: 'INPUT_REQUIRED',
  finished: 'COMPLETED',
  aborted: 'CANCELED',
  interrupted: 'CANCELED',
  failed: 'FAILED',
} as const satisfies Record<ListedTurn['status'], string>

/** The statuses of turns behind a state that a list asks for; no entry where any will do. */
const statusesOf: Readonly<Record<string, readonly ListedTurn['status'][] | undefined>> = {
  TASK_STATE_SUBMITTED: ['queued'],
  TASK_STATE_WORKING: ['running'],
  TASK_STATE_INPUT_REQUIRED: ['waiting'],
  TASK_STATE_COMPLETED: ['finished'],
  TASK_STATE_CANCELED: ['aborted', 'interrupted'],
  TASK_STATE_FAILED: ['failed'],
  TASK_STATE_REJECTED: [],
  TASK_STATE_AUTH_REQUIRED: [],
}

const isOver = ({ status }: ListedTurn) =>
  status === 'finished' || status === 'aborted' || status === 'interrupted' || status === 'failed'

/** Whether it can be the id of a context: a path cannot name the others. */
const isContext = (id: string) => id.length <= 100 && /^(?!\.{1,2}$)\P{Cc}+$/u.test(id)

/** The run of a turn, which may have waited until its session was free. */
async function firstRunOf(turn: StartedTurn): Promise<string> {
  const { runId } = await turn.begun
  if (runId !== undefined) return runId
  for await (const { event, data } of turn) if (event === 'run') return data.runId
  throw new RuntimeError('CONFLICT', 'The message was taken away before its turn began.')
}
