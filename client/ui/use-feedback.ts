import { useCallback, useEffect, useMemo, useState } from 'react'
import type { IMessage, Overrides } from '../core/records.ts'
import { useClient } from '../react/provider.ts'
import { places, useAsk } from './hooks.ts'

/** What a person thinks of an answer. */
export type Rating = 'up' | 'down'

/** What `useFeedback` returns. */
export interface Feedback {
  /** Whether the oracle takes feedback. */
  readonly isThere: boolean
  readonly ratingOf: (message: IMessage) => Rating | undefined
  /** Says what is thought of the last of some messages, or takes it back. */
  readonly rate: (upTo: readonly IMessage[], rating: Rating | null) => Promise<void>
}

/** What the user thinks of the answers of a conversation; the last word on each counts. */
export function useFeedback(oracleDid: string, sessionId: string, overrides?: Overrides): Feedback {
  const ask = useAsk(oracleDid, overrides)
  const client = useClient()
  const [isThere, setThere] = useState(false)
  const [ratings, setRatings] = useState<ReadonlyMap<string, Rating | null>>(new Map())
  useEffect(() => {
    let isHere = true
    const key = JSON.stringify(['feedback', oracleDid, overrides?.baseUrl])
    const facts = client.once(key, () =>
      ask<{ feedback?: unknown }>('/.well-known/oracle.json').then(
        ({ feedback }) => feedback === true,
        () => false,
      ),
    )
    const read = async () => {
      if (!(await facts) || !isHere) return
      setThere(true)
      const path = `/feedback/mine?sessionId=${encodeURIComponent(sessionId)}`
      const { feedback } = await ask<{ feedback: readonly Said[] }>(path)
      if (isHere)
        setRatings(
          (now) =>
            new Map([...feedback.map((one) => [one.messageId, one.rating] as const), ...now]),
        )
    }
    setRatings(new Map())
    read().catch(() => undefined)
    return () => void (isHere = false)
  }, [ask, client, oracleDid, sessionId])
  const rate = useCallback(
    async (upTo: readonly IMessage[], rating: Rating | null) => {
      // An answer that came just now has another name here than in the history.
      const messageId = await (await places()).idOf(ask, sessionId, upTo)
      await ask('/feedback', { body: { sessionId, messageId, rating } })
      const names = [upTo.at(-1)?.id ?? '', messageId ?? '']
      setRatings((now) => new Map([...now, ...names.map((name) => [name, rating] as const)]))
    },
    [ask, sessionId],
  )
  return useMemo(
    () => ({ isThere, ratingOf: ({ id }: IMessage) => ratings.get(id) ?? undefined, rate }),
    [isThere, ratings, rate],
  )
}

interface Said {
  readonly messageId: string
  readonly rating: Rating
}
