import { type ReactNode, useState } from 'react'
import { type ApiDocument, operationsOf } from './openapi.ts'
import { OperationCard } from './operation.tsx'

/** The operations of an OpenAPI document by their tags, with a filter: each a row, which opens to a form that tries it. */
export function Operations({ document }: { readonly document: ApiDocument }): ReactNode {
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
