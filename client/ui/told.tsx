import { useState } from 'react'
import type { ChatAddress } from '../core/client.ts'
import { useChatEvents } from '../react/use-run.ts'
import { straight } from './markdown/links.ts'
import { useWords } from './words.ts'

/** What a reader should know of the model's side of a conversation: another model answers, or it reads less from now on. */
export function Told({ address }: { readonly address: ChatAddress }) {
  const words = useWords()
  const [lines, setLines] = useState<readonly string[]>([])
  useChatEvents(address, ({ eventName, payload }) => {
    if (eventName === 'run' && !payload.continues) setLines([])
    const line =
      eventName === 'model'
        ? words.anotherModel(straight(payload.model), straight(payload.instead))
        : eventName === 'context'
          ? words.readsLess
          : undefined
    if (line !== undefined) setLines((known) => (known.includes(line) ? known : [...known, line]))
  })
  return (
    <div className="oc-told" role="status">
      {lines.map((line) => (
        <p key={line}>{line}</p>
      ))}
    </div>
  )
}
