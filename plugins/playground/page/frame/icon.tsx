/** The drawings of the page's own views, in a square of 24. */
const drawings: Readonly<Record<string, string>> = {
  chat: 'M4 5h16v11H10l-4 4v-4H4z',
  runs: 'M4 6h9M4 12h16M8 18h9',
  capabilities: 'M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z',
  wire: 'M3 9h15l-4-4M21 15H6l4 4',
  api: 'M9 5 3 12l6 7M15 5l6 7-6 7',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
}

/** A view's drawing; of a view that a plugin brings the first letter of its name. */
export function Icon({ name, label }: { readonly name: string; readonly label: string }) {
  const drawing = Object.hasOwn(drawings, name) ? drawings[name] : undefined
  return drawing === undefined ? (
    <b className="icon" aria-hidden="true" data-letter={label.slice(0, 1)} />
  ) : (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={drawing} />
    </svg>
  )
}
