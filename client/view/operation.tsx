import { useState } from 'react'
import { answer } from './asking.ts'
import { Copy } from './copy.tsx'
import { Fault } from './fault.tsx'
import { Json } from './json.tsx'
import { addressOf, formOf, type Operation } from './openapi.ts'
import { useHost } from './root.tsx'
import { SchemaForm, type Values } from './schema-form.tsx'

interface Answered {
  readonly status: number
  readonly ms: number
  readonly text: string
}

const most = 200_000

/** One operation: its parameters, its answers, and a form to try it. */
export function OperationCard({ operation }: { operation: Operation }) {
  const [isOpen, setOpen] = useState(false)
  const { method, path, summary, security } = operation
  const isOpenToAll = !security || security.length === 0
  return (
    <details className="operation" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span className={`method ${method.toLowerCase()}`}>{method}</span>
        <code className="break">{path}</code>
        <span className="about">{summary}</span>
        <span className="tag">{isOpenToAll ? 'public' : Object.keys(security[0]!).join()}</span>
      </summary>
      {isOpen && <Trial operation={operation} />}
    </details>
  )
}

/** A form that calls an operation and shows the answer. Most of the function's length is markup. */
function Trial({ operation }: { operation: Operation }) {
  const host = useHost()
  const [values, setValues] = useState<Values>({})
  const [answered, setAnswered] = useState<Answered>()
  const [fault, setFault] = useState<unknown>()
  const [stop, setStop] = useState<AbortController>()
  const { method, description, responses = {} } = operation

  async function send({ body, ...rest }: Values) {
    const control = new AbortController()
    setStop(control)
    setFault(undefined)
    setAnswered({ status: 0, ms: 0, text: '' })
    const begun = performance.now()
    try {
      const response = await answer(host, addressOf(operation, rest), {
        method,
        ...(body !== undefined && { body }),
        signal: control.signal,
      })
      const now = (text: string) =>
        setAnswered({ status: response.status, ms: performance.now() - begun, text })
      let text = ''
      const decoder = new TextDecoder()
      const reader = response.body?.getReader()
      for (;;) {
        const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
        if (done) break
        text += decoder.decode(value, { stream: true })
        now(text)
        if (text.length > most) control.abort()
      }
      now(text)
    } catch (error) {
      if (!control.signal.aborted) setFault(error)
    } finally {
      setStop(undefined)
    }
  }

  const curl = () =>
    [
      `curl -K /tmp/me -X ${method}`,
      values.body !== undefined &&
        `-H 'content-type: application/json' -d '${JSON.stringify(values.body).replaceAll("'", `'\\''`)}'`,
      `'${location.origin}${addressOf(operation, values)}'`,
    ]
      .filter(Boolean)
      .join(' ')

  return (
    <div className="trial">
      {description && <p>{description}</p>}
      <SchemaForm
        schema={formOf(operation)}
        submit="Send"
        busy={stop !== undefined}
        onSubmit={send}
        onChange={setValues}
      >
        <Copy text={curl}>Copy as curl</Copy>
        {stop && (
          <button type="button" className="quiet" onClick={() => stop.abort()}>
            Stop
          </button>
        )}
      </SchemaForm>
      <p className="faint">
        Answers{' '}
        {Object.entries(responses)
          .map(([status, { description: about }]) => `${status} ${about ?? ''}`.trim())
          .join(', ')}
      </p>
      <Fault error={fault} />
      {answered && answered.status > 0 && <Answer answered={answered} />}
    </div>
  )
}

function Answer({ answered: { status, ms, text } }: { answered: Answered }) {
  return (
    <>
      <p role="status">
        <span className={`tag ${status < 400 ? 'good' : 'bad'}`}>{status}</span> {Math.round(ms)}{' '}
        ms, {text.length.toLocaleString('en')} characters
      </p>
      <Json value={text} label="Answer" />
    </>
  )
}
