import { useState, useSyncExternalStore } from 'react'
import { Copy } from 'oracle-runtime-client/view'
import { traffic, type Piece } from '../traffic.ts'

const kinds = { http: 'Requests', sse: 'Stream frames', socket: 'Socket frames' } as const

/** Everything that the page sent and received since it opened. */
export function WireView() {
  const pieces = useSyncExternalStore(traffic.subscribe, traffic.pieces)
  const [words, setWords] = useState('')
  const [hidden, setHidden] = useState<ReadonlySet<Piece['kind']>>(new Set())
  const wanted = words.toLowerCase()
  const shown = pieces.filter(
    (piece) =>
      !hidden.has(piece.kind) &&
      (wanted === '' || `${piece.title}\n${piece.text}`.toLowerCase().includes(wanted)),
  )
  const latest = shown.slice(-300).reverse()
  return (
    <>
      <p className="lead">
        Requests, frames of streams and frames of sockets, with time and size. Newest first.
      </p>
      <section className="card" aria-label="Traffic">
        <div className="row wrap">
          <label className="grow">
            Filter
            <input type="search" value={words} onChange={(event) => setWords(event.target.value)} />
          </label>
          {Object.entries(kinds).map(([kind, label]) => (
            <label key={kind} className="check">
              <input
                type="checkbox"
                checked={!hidden.has(kind as Piece['kind'])}
                onChange={() => setHidden(toggled(hidden, kind as Piece['kind']))}
              />
              {label}
            </label>
          ))}
          <Copy text={() => shown.map(lineOf).join('\n')}>Copy all</Copy>
          <button type="button" className="quiet" onClick={traffic.clear}>
            Clear
          </button>
        </div>
        <p className="faint" role="status">
          {shown.length} of {pieces.length}
          {shown.length > latest.length && `, the newest ${latest.length} shown`}
        </p>
        <ul className="traffic">
          {latest.map((piece) => (
            <li key={piece.id}>
              <details>
                <summary>
                  <time>{clock(piece.at)}</time>
                  <span className={`tag ${piece.kind}`}>{tagOf(piece)}</span>
                  <span className="title">{piece.title}</span>
                  <span className="about">{previewOf(piece)}</span>
                  <span className="figure">
                    {piece.ms === undefined ? '' : `${Math.round(piece.ms)} ms`}
                  </span>
                  <span className="figure">{sizeOf(piece.size)}</span>
                </summary>
                <pre tabIndex={0} role="region" aria-label={`${piece.title} in full`}>
                  {piece.text}
                </pre>
                <Copy text={() => piece.text} />
              </details>
            </li>
          ))}
        </ul>
        {latest.length === 0 && <p>Nothing yet. Ask something in the chat, then come back.</p>}
      </section>
    </>
  )
}

function toggled<T>(set: ReadonlySet<T>, item: T): ReadonlySet<T> {
  const next = new Set(set)
  if (!next.delete(item)) next.add(item)
  return next
}

const tagOf = ({ kind, status, direction }: Piece) =>
  kind === 'http' ? String(status) : `${kind} ${direction === 'out' ? '→' : '←'}`

const clock = (at: number) => new Date(at).toISOString().slice(11, 23)

const sizeOf = (size: number) => (size < 1_000 ? `${size} B` : `${(size / 1_000).toFixed(1)} kB`)

const lineOf = (piece: Piece) =>
  `${clock(piece.at)} ${tagOf(piece)} ${piece.title} ${sizeOf(piece.size)}\n${piece.text}\n`

/** The content of a frame on one line; empty for a request, whose title says enough. */
const previewOf = ({ kind, text }: Piece) =>
  kind === 'http' ? '' : kind === 'socket' ? text : (/^data: (.*)$/m.exec(text)?.[1] ?? '')
