import { useState } from 'react'
import { useCapabilities } from 'oracle-runtime-client'
import type { Document } from '../openapi.ts'
import { useAnswer, type Oracle } from '../oracle.ts'
import { Fault } from '../parts/fault.tsx'
import { Text } from '../parts/inputs.tsx'
import { Operations } from './api.tsx'

/** The queries of the ledger, from the OpenAPI document of the query gateway. */
export function LedgerView({ oracle }: { oracle: Oracle }) {
  const { plugins, isLoading } = useCapabilities(oracle.did)
  const gateway = plugins.find(({ name }) => name === 'query-gateway')
  const isServed = gateway && !['excluded', 'disabled', 'failed'].includes(gateway.state)
  const [prefix, setPrefix] = useState('ledger')
  const path = prefix.replace(/^\/+|\/+$/g, '')
  const { data, error } = useAnswer<Document>(
    isServed ? `${path && `/${path}`}/openapi.json` : undefined,
  )
  if (isLoading) return <p role="status">Asking…</p>
  if (!isServed)
    return (
      <section className="card" aria-labelledby="no-ledger">
        <h2 id="no-ledger">No ledger is connected</h2>
        <p>
          {gateway
            ? (gateway.reason ?? `The gateway is ${gateway.state}.`)
            : 'The gateway is not part of this server.'}
        </p>
        <p>A small one to try comes along. It prints the variables to start the server with:</p>
        <pre tabIndex={0}>npm run example:ledger</pre>
      </section>
    )
  return (
    <>
      <p className="lead">
        Queries of the ledger behind the gateway, described by the gateway itself.
      </p>
      <div className="card">
        <Text label="Prefix of its paths" value={prefix} onChange={setPrefix} />
        <Fault error={error} />
      </div>
      {data && <Operations document={data} />}
    </>
  )
}
