import { type ReactNode, useState } from 'react'
import { toOracleError } from '../core/error.ts'
import type { Attachment, IMessage } from '../core/records.ts'
import type { AlreadyDone, Branches } from './hooks.ts'
import { straight } from './markdown/links.ts'
import { isPassing, newId } from './outbox.ts'
import { useWords } from './words.ts'

/** What is said in the place of a message; the files of that go along. */
type Said = readonly [text: string, attachments?: readonly Attachment[]]

/** A version that is made, and waits for a yes because of what already happened. */
interface Asking {
  readonly id: string
  readonly say: Said
  readonly already: readonly AlreadyDone[]
}

/** Messages up to one of them. */
export const upTo = (messages: readonly IMessage[], { id }: IMessage): readonly IMessage[] =>
  messages.slice(0, messages.findIndex((one) => one.id === id) + 1)

/** What could not be said, and the key by which the server makes one version of it, however often it is asked. */
interface Failed {
  readonly fault: unknown
  readonly said: readonly [message: IMessage, text: string, key: string]
}

/** What `useInstead` returns. */
export interface Instead {
  /** Says something in the place of a message. */
  readonly instead: (message: IMessage, text: string) => Promise<void>
  /** Asks whether to go on although a write stays done; undefined while nothing is asked. */
  readonly question: ReactNode
  readonly fault: unknown
  /** Says once more what could not be said; undefined while nothing failed. */
  readonly again: (() => void) | undefined
}

/** Says something in the place of a message, in another version of the conversation; asks before that where a write stays. */
export function useInstead(
  messages: readonly IMessage[],
  branches: Branches,
  onSession: (sessionId: string, ...said: Partial<Said>) => void,
): Instead {
  const [asking, setAsking] = useState<Asking>()
  const [failed, setFailed] = useState<Failed>()
  const instead = async (message: IMessage, text: string, key = newId()) => {
    setFailed(undefined)
    const say: Said = [text, message.attachments]
    try {
      const { sessionId: id, already } = await branches.fork(upTo(messages, message), key)
      if (already.length > 0) setAsking({ id, say, already })
      else onSession(id, ...say)
    } catch (thrown) {
      const fault = toOracleError(thrown)
      // A refusal is the answer to its key for good.
      setFailed({ fault, said: [message, text, isPassing(fault) ? key : newId()] })
    }
  }
  const question = asking && (
    <AlreadyDoneCard
      already={asking.already}
      onYes={() => (setAsking(undefined), onSession(asking.id, ...asking.say))}
      onNo={() => (setAsking(undefined), void branches.drop(asking.id))}
    />
  )
  const again = failed && (() => void instead(...failed.said))
  return { instead, question, fault: failed?.fault, again }
}

interface AlreadyDoneCardProps {
  readonly already: readonly AlreadyDone[]
  readonly onYes: () => void
  readonly onNo: () => void
}

function AlreadyDoneCard({ already, onYes, onNo }: AlreadyDoneCardProps) {
  const words = useWords()
  return (
    <div className="oc-approval" role="alertdialog" aria-label={words.again}>
      <p>{words.alreadyDone(straight(already.map(({ toolName }) => toolName).join(', ')))}</p>
      <div className="oc-row">
        <button type="button" onClick={onYes}>
          {words.goOn}
        </button>
        <button type="button" className="oc-quiet" onClick={onNo}>
          {words.cancel}
        </button>
      </div>
    </div>
  )
}
