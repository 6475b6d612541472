import { useChat } from '@ai-sdk/react'
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai'
import { createRoot } from 'react-dom/client'

// Opened as http://localhost:5173/?chat=my-chat#key=ok_…: what stands behind # is sent to no server. A page for others has no key in it:
// there your own server adds the header.
const asked = new URLSearchParams(location.search)
const api = `${asked.get('oracle') ?? 'http://127.0.0.1:3000'}/ai-sdk/chat`
const id = asked.get('chat') ?? 'ai-sdk-example'
const key = new URLSearchParams(location.hash.slice(1)).get('key')
const headers = { authorization: `Bearer ${key}` }
const clock = { name: 'look_at_the_clock', description: 'What time it is where the user is.' }
const transport = new DefaultChatTransport({ api, headers, body: { tools: [clock] } })

function Chat({ before }: { before: UIMessage[] }) {
  const chat = useChat({
    ...{ id, transport, messages: before, resume: true },
    sendAutomaticallyWhen: (all) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(all) ||
      lastAssistantMessageIsCompleteWithToolCalls(all),
    onToolCall({ toolCall: { toolName: tool, toolCallId } }) {
      if (tool !== clock.name) return
      void chat.addToolOutput({ tool, toolCallId, output: new Date().toLocaleTimeString('en') })
    },
  })
  const isBusy = chat.status === 'submitted' || chat.status === 'streaming'
  const stop = () => fetch(`${api}/${id}/stream`, { method: 'DELETE', headers })
  const send = (form: FormData) => void chat.sendMessage({ text: String(form.get('words')) })
  return (
    <form action={send}>
      {chat.messages.map(({ id, role, parts }) => (
        <article key={id} aria-label={role}>
          {parts.map((part, i) => (
            <Part key={i} part={part} decide={chat.addToolApprovalResponse} />
          ))}
        </article>
      ))}
      {chat.error && <p role="alert">{chat.error.message}</p>}
      <input name="words" aria-label="Your message" required autoComplete="off" />
      <button disabled={isBusy}>Send</button>
      <button type="button" disabled={!isBusy} onClick={() => void stop()}>
        Stop
      </button>
      <button type="button" disabled={isBusy} onClick={() => void chat.regenerate()}>
        Another answer
      </button>
    </form>
  )
}

type Decide = (answer: { id: string; approved: boolean }) => unknown

function Part({ part, decide }: { part: UIMessage['parts'][number]; decide: Decide }) {
  if (part.type === 'text') return <p>{part.text}</p>
  if (part.type === 'reasoning') return <small>{part.text}</small>
  if (part.type === 'data-component') return <pre>{JSON.stringify(part.data)}</pre>
  if (!isToolUIPart(part)) return null
  const name = part.type === 'dynamic-tool' ? part.toolName : part.type.slice('tool-'.length)
  const { state, approval } = part
  return (
    <fieldset>
      <legend>{`${name}: ${state}`}</legend>
      <code>{JSON.stringify(part.input)}</code>
      {state === 'approval-requested' &&
        approval &&
        [true, false].map((approved) => (
          <button
            key={`${approved}`}
            type="button"
            onClick={() => decide({ id: approval.id, approved })}
          >
            {approved ? 'Approve' : 'Deny'}
          </button>
        ))}
    </fieldset>
  )
}

const kept = await fetch(`${api}/${id}/messages`, { headers })
const { messages = [] } = kept.ok ? await kept.json() : {}
createRoot(document.getElementById('root')!).render(<Chat before={messages} />)
