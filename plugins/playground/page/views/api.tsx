import { type ApiDocument, Fault, Operations, useAnswer } from 'oracle-runtime-client/view'
import './views.css'
import './operations.css'

/** Every route of the server, from the server's OpenAPI document. */
export function ApiView() {
  const { data, error, isLoading } = useAnswer<ApiDocument>('/openapi.json')
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
