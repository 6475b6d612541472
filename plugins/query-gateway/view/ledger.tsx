import { useState } from 'react'
import {
  type ApiDocument,
  Fault,
  Operations,
  TextField,
  useAnswer,
} from 'oracle-runtime-client/view'

/** The queries of the ledger, from the OpenAPI document of the query gateway. */
export function LedgerView() {
  const [prefix, setPrefix] = useState('ledger')
  const path = prefix.replace(/^\/+|\/+$/g, '')
  const { data, error } = useAnswer<ApiDocument>(`${path && `/${path}`}/openapi.json`)
  return (
    <>
      <p className="lead">
        Queries of the ledger behind the gateway, described by the gateway itself.
      </p>
      <div className="card">
        <TextField label="Prefix of its paths" value={prefix} onChange={setPrefix} />
        <Fault error={error} />
      </div>
      {data && <Operations document={data} />}
    </>
  )
}
