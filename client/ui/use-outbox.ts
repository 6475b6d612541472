import { useMemo } from 'react'
import type { IMessage, Overrides } from '../core/records.ts'
import { useClient } from '../react/provider.ts'
import { useStore } from '../react/use-store.ts'
import {
  type Outbox,
  type OutboxEntry,
  type OutboxLane,
  outboxOf,
  type OutboxSnapshot,
} from './outbox.ts'

/** What `useOutbox` returns. */
export interface OutboxResult
  extends Pick<OutboxLane, 'retryAt' | 'fault'>, Pick<OutboxSnapshot, 'made' | 'turns'> {
  /** The words of one conversation that wait, the oldest first. */
  readonly waiting: readonly OutboxEntry[]
  /** Whether words of the conversation are on their way just now, and which. */
  readonly isSending: boolean
  readonly sending?: OutboxEntry
  /** Whether a message of the chat is one that waits or was taken back: such a message is not shown twice. */
  readonly hides: (message: IMessage) => boolean
  readonly outbox: Outbox
}

/** What the user has said in a conversation and the server has not heard; it is sent once, as soon as may be. */
export function useOutbox(
  oracleDid: string,
  isIn: (sessionId: string) => boolean,
  overrides?: Overrides,
): OutboxResult {
  const client = useClient()
  const outbox = outboxOf(client, oracleDid, overrides)
  const { entries, lanes, made, turns, cancelled } = useStore(outbox)
  return useMemo(() => {
    const own = entries.filter(({ sessionId }) => isIn(sessionId))
    const sent = ({ id, sessionId }: OutboxEntry) => lanes.get(sessionId)?.sending === id
    const waiting = own.filter((one) => !sent(one))
    const sending = own.find(sent)
    const hidden = new Set([...cancelled, ...waiting.map(({ id }) => id)])
    const ways = [...lanes].flatMap(([sessionId, lane]) => (isIn(sessionId) ? lane : []))
    return {
      ...{ waiting, sending, made, turns, outbox },
      isSending: sending !== undefined,
      retryAt: ways.find(({ retryAt }) => retryAt)?.retryAt,
      fault: ways.find(({ fault }) => fault)?.fault,
      hides: ({ id }: IMessage) => hidden.has(id),
    }
  }, [entries, lanes, cancelled, made, turns, outbox, isIn])
}
