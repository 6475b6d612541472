/** A fault as a sentence, with what the user can do next. */
export function Fault({ error }: { error: unknown }) {
  if (!error) return null
  const { message, hint, code, details } = error as {
    message?: string
    hint?: string
    code?: string
    details?: unknown
  }
  return (
    <div role="alert" className="fault">
      <strong>{message ?? String(error)}</strong>
      {hint && <p>{hint}</p>}
      {code && <code>{code}</code>}
      {details !== undefined && (
        <details>
          <summary>Details</summary>
          <pre tabIndex={0}>{JSON.stringify(details, null, 2)}</pre>
        </details>
      )}
    </div>
  )
}
