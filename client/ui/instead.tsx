import { type ReactNode, useState } from 'react'
import type { IMessage } from '../core/records.ts'
import type { AlreadyDone, Branches } from './hooks.ts'
import { straight } from './markdown/links.ts'
import { useWords } from './words.ts'

/** A version that is made, and waits for a yes because of what already happened. */
interface Asking {
  readonly id: string
  readonly say: string
  readonly already: readonly AlreadyDone[]
}

/** What `useInstead` returns. */
export interface Instead {
  /** Says something in the place of a message. */
  readonly instead: (message: IMessage, text: string) => Promise<void>
  /** Asks whether to go on although a write stays done; undefined while nothing is asked. */
  readonly question: ReactNode
  readonly fault: unknown
}

/** Says something in the place of a message, in another version of the conversation; asks before that where a write stays. */
export function useInstead(
  messages: readonly IMessage[],
  branches: Branches,
  onSession: (sessionId: string, say?: string) => void,
): Instead {
  const [asking, setAsking] = useState<Asking>()
  const [fault, setFault] = useState<unknown>()
  const instead = async (message: IMessage, text: string) => {
    setFault(undefined)
    try {
      const { sessionId: id, already } = await branches.fork(
        messages.length - 1 - messages.indexOf(message),
      )
      if (already.length > 0) setAsking({ id, say: text, already })
      else onSession(id, text)
    } catch (thrown) {
      setFault(thrown)
    }
  }
  const question = asking && (
    <AlreadyDoneCard
      already={asking.already}
      onYes={() => (setAsking(undefined), onSession(asking.id, asking.say))}
      onNo={() => (setAsking(undefined), void branches.drop(asking.id))}
    />
  )
  return { instead, question, fault }
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
