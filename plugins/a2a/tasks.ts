import type { Artifact, Part, StreamResponse, Task, TaskStatus } from '@a2a-js/sdk'
import type { ListedTurn, Turns, User } from '#core'
import { answerId } from './names.ts'
import type { Sdk } from './sdk.ts'
import { type EndState, toldOf } from './told.ts'

/** What tasks are made with. */
export interface TaskParts {
  readonly sdk: Sdk
  readonly turns: Turns
  readonly user: User
}

/** Which task it is. */
export interface TaskIds {
  readonly id: string
  readonly contextId: string
}

type State = EndState | 'SUBMITTED' | 'WORKING' | 'REJECTED'

/** How many runs a task has at most: each answer to a question begins another. */
const mostRuns = 200

const part = (content: Part['content'], mediaType: string): Part => ({
  ...{ content, mediaType },
  ...{ metadata: undefined, filename: '' },
})
const textPart = (value: string) => part({ $case: 'text', value }, 'text/plain')
const dataPart = (value: object) => part({ $case: 'data', value }, 'application/json')

const artifact = (artifactId: string, parts: Part[]): Artifact => ({
  ...{ artifactId, parts },
  ...{ name: '', description: '', metadata: undefined, extensions: [] },
})

/** The status of a task, with words of the agent where it asks or has failed. */
export function statusOf(
  { TaskState, Role }: Sdk,
  { id, contextId }: TaskIds,
  state: State,
  words?: string,
  at = new Date(),
): TaskStatus {
  return {
    state: TaskState[`TASK_STATE_${state}`],
    timestamp: at.toISOString(),
    message: words
      ? {
          ...{ messageId: `${id}-${state.toLowerCase()}`, contextId, taskId: id },
          ...{ role: Role.ROLE_AGENT, parts: [textPart(words)] },
          ...{ metadata: undefined, extensions: [], referenceTaskIds: [] },
        }
      : undefined,
  }
}

/** A task without any artifact. */
export const taskOf = ({ id, contextId }: TaskIds, status: TaskStatus): Task => ({
  ...{ id, contextId, status },
  ...{ artifacts: [], history: [], metadata: undefined },
})

/** The runs of a task, the first one first. */
async function chainOf({ turns, user }: TaskParts, runId: string): Promise<string[]> {
  const chain = [runId]
  while (chain.length < mostRuns) {
    let before: string | undefined
    for await (const { event, data } of turns.events({ user, runId: chain[0] ?? runId })) {
      if (event === 'run') before = data.continues
      break
    }
    if (before === undefined) break
    chain.unshift(before)
  }
  return chain
}

/** A turn that stands still or has ended as a task, with all that was said. */
export async function wholeTask(parts: TaskParts, turn: ListedTurn): Promise<Task> {
  const ids = { id: turn.runId, contextId: turn.sessionId }
  const task = taskOf(ids, statusOf(parts.sdk, ids, 'WORKING', undefined, turn.startedAt))
  for await (const event of updatesOf(parts, ids, turn.lastRunId)) take(task, event)
  // The events end with the question; what came of a task that was stopped there is known of the turn alone.
  const { TASK_STATE_INPUT_REQUIRED } = parts.sdk.TaskState
  const isStopped = turn.status === 'aborted' || turn.status === 'interrupted'
  if (isStopped && task.status?.state === TASK_STATE_INPUT_REQUIRED)
    task.status = statusOf(parts.sdk, ids, 'CANCELED')
  if (turn.endedAt && task.status) task.status.timestamp = turn.endedAt.toISOString()
  return task
}

/** Takes an update into a task. */
export function take(task: Task, { payload }: StreamResponse): void {
  if (payload?.$case === 'statusUpdate') task.status = payload.value.status
  if (payload?.$case !== 'artifactUpdate' || !payload.value.artifact) return
  const { artifact: update, append } = payload.value
  const known = task.artifacts.find(({ artifactId }) => artifactId === update.artifactId)
  if (!known || !append) {
    task.artifacts = [...task.artifacts.filter((other) => other !== known), update]
    return
  }
  for (const piece of update.parts) {
    const last = known.parts.at(-1)
    if (last?.content?.$case === 'text' && piece.content?.$case === 'text')
      last.content.value += piece.content.value
    else known.parts.push(piece)
  }
}

/** What becomes of a task, from its very beginning up to where its last run stands still or ends. */
export async function* updatesOf(
  parts: TaskParts,
  ids: TaskIds,
  runId: string,
): AsyncGenerator<StreamResponse, void, undefined> {
  const { sdk, turns, user } = parts
  const { id: taskId, contextId } = ids
  let isBegun = false
  const chain = await chainOf(parts, runId)
  for (const each of chain) {
    const isLast = each === chain.at(-1)
    for await (const told of toldOf(turns.events({ user, runId: each }))) {
      if (told.is === 'end') {
        if (!isLast) continue
        const status = statusOf(sdk, ids, told.state, told.words)
        const value = { taskId, contextId, status, metadata: undefined }
        yield { payload: { $case: 'statusUpdate', value } }
        return
      }
      const isWords = told.is === 'text'
      const update = isWords
        ? artifact(answerId, [textPart(told.text)])
        : artifact(told.id, [dataPart(told.data)])
      const append = isWords && isBegun
      isBegun ||= isWords
      const value = {
        taskId,
        contextId,
        artifact: update,
        append,
        lastChunk: false,
        metadata: undefined,
      }
      yield { payload: { $case: 'artifactUpdate', value } }
    }
  }
}
