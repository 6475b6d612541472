import { useState } from 'react'
import { operationsOf, type Document } from '../openapi.ts'
import { useAnswer } from '../oracle.ts'
import { Fault } from '../parts/fault.tsx'
import { OperationCard } from './operation.tsx'

/** Every route of the server, from the server's OpenAPI document. */
export function ApiView() {
  const { data, error, isLoading } = useAnswer<Document>('/openapi.json')
  return (
    <>
      <p className="lead">
        Every route of this server, from <a href="/openapi.json">/openapi.json</a>. Forms send as
        this page’s user.
      </p>
      <Fault error={error} />
      {isLoading && <p role="status">Reading…</p>}
      {data && <Operations document={data} />}
    </>
  )
}

/** The operations of a document by their tags, with a filter. */
export function Operations({ document }: { document: Document }) {
  const [words, setWords] = useState('')
  const wanted = words.toLowerCase()
  const all = operationsOf(document).filter(({ method, path, summary }) =>
    `${method} ${path} ${summary ?? ''}`.toLowerCase().includes(wanted),
  )
  const groups = Object.entries(Object.groupBy(all, ({ tags }) => tags?.[0] ?? 'routes'))
  return (
    <>
      <label className="filter">
        Filter
        <input type="search" value={words} onChange={(event) => setWords(event.target.value)} />
      </label>
      {groups.map(([name, operations = []]) => (
        <section key={name} className="card" aria-labelledby={`tag-${name}`}>
          <h2 id={`tag-${name}`}>{name}</h2>
          {operations.map((operation) => (
            <OperationCard key={`${operation.method} ${operation.path}`} operation={operation} />
          ))}
        </section>
      ))}
      {groups.length === 0 && <p>No route has these words.</p>}
    </>
  )
}
