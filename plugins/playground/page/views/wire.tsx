import { useState, useSyncExternalStore } from 'react'
import { Copy } from 'oracle-runtime-client/view'
import { rowsOf, type Row } from '../rows.ts'
import { traffic, type Piece } from '../traffic.ts'
import './views.css'
import './wire.css'

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
  const rows = rowsOf(shown)
  const latest = rows.slice(-300).reverse()
  return (
    <>
      <p className="lead">
        Requests, frames of streams and frames of sockets, by run, with time and size. Neighbouring
        tokens are one row, and so is what came by stream and by socket. Newest first.
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
          {shown.length} of {pieces.length} pieces in {rows.length} rows
          {rows.length > latest.length && `, the newest ${latest.length} shown`}
        </p>
        <ul className="traffic">
          {latest.map((piece) => (
            <li key={piece.id}>
              <details>
                <summary>
                  <time dateTime={new Date(piece.at).toISOString()}>{clock(piece.at)}</time>
                  <span className={`tag ${piece.kind}`}>{tagOf(piece)}</span>
                  {piece.run && <code className="run">{piece.run.slice(0, 8)}</code>}
                  <span className="title">
                    {piece.name ?? piece.title}
                    {piece.count > 1 && <b> × {piece.count}</b>}
                  </span>
                  <span className="about">{previewOf(piece)}</span>
                  <span className="figure" dir="ltr">
                    {piece.ms === undefined ? '' : `${Math.round(piece.ms)} ms`}
                  </span>
                  <span className="figure" dir="ltr">
                    {sizeOf(piece.size)}
                  </span>
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

const tagOf = ({ kind, status, direction, ways }: Row) =>
  kind === 'http' ? String(status) : `${ways.join('+')} ${direction === 'out' ? '→' : '←'}`

/** Day and time, as the clock of this machine has them. */
const clock = (at: number) => {
  const day = new Date(at)
  const two = (part: number) => String(part).padStart(2, '0')
  const date = `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`
  const time = [day.getHours(), day.getMinutes(), day.getSeconds()].map(two).join(':')
  return `${date} ${time}.${String(day.getMilliseconds()).padStart(3, '0')}`
}

const sizeOf = (size: number) => (size < 1_000 ? `${size} B` : `${(size / 1_000).toFixed(1)} kB`)

const lineOf = (piece: Piece) =>
  `${clock(piece.at)} ${piece.kind} ${piece.title} ${sizeOf(piece.size)}\n${piece.text}\n`

/** What tokens say together, or the content of a frame on one line; empty for a request, whose title says enough. */
const previewOf = ({ kind, text, words }: Row) =>
  words ??
  (kind === 'http' ? '' : kind === 'socket' ? text : (/^data: (.*)$/m.exec(text)?.[1] ?? ''))
