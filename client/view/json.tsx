/** Data as JSON, in a box that the user can scroll with the keyboard. */
export function Json({ value, label }: { value: unknown; label: string }) {
  const text = typeof value === 'string' ? pretty(value) : JSON.stringify(value, null, 2)
  return (
    <pre className="json" tabIndex={0} role="region" aria-label={label}>
      {text ?? 'nothing'}
    </pre>
  )
}

function pretty(text: string) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
