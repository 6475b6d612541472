import { type AnyEvent, type IMessage } from 'oracle-runtime-client'

/** What the reader of a chat should know about the model's side of it. */
export type Told = { readonly key: string; readonly text: string }

/** Which words say how a conversation was made shorter for the model. */
const shortened = {
  pruned: 'long results of earlier tools were left out',
  summarised: 'earlier messages were summarised',
  trimmed: 'the earliest messages were left out',
}

/** The sentence that an event makes for the reader; undefined for an event that the page shows otherwise. */
export function toldBy({ eventName, payload }: AnyEvent): Told | undefined {
  if (eventName === 'model')
    return {
      key: `model ${payload.model} ${payload.instead}`,
      text: `${payload.instead} could not answer (${payload.code}). ${payload.model} answers instead.`,
    }
  if (eventName === 'context')
    return {
      key: `context ${payload.kind}`,
      text: `The model reads less of this chat from now on: ${shortened[payload.kind]}. The history keeps every word.`,
    }
  return undefined
}

/** These sentences, each once, in the order in which they came. */
export const withTold = (known: readonly Told[], told: Told): readonly Told[] =>
  known.some(({ key }) => key === told.key) ? known : [...known, told]

/** Shows the sentences below the messages; a screen reader speaks them. */
export const ToldLines = ({ told }: { told: readonly Told[] }) => (
  <div role="status" className="told">
    {told.map(({ key, text }) => (
      <p key={key}>{text}</p>
    ))}
  </div>
)

/** Names the model of an answer, where it is another than the chat's. */
export const AnsweredBy = ({ message, usual }: { message: IMessage; usual: string | undefined }) =>
  message.type === 'ai' && message.model && usual && message.model !== usual ? (
    <p className="answered-by">Answered by {message.model}</p>
  ) : null
