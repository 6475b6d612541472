import { useState } from 'react'
import type { Approval as Ask } from 'oracle-client'
import { Fault } from '../parts/fault.tsx'
import { Lines } from '../parts/inputs.tsx'

/** A tool that waits for a person: its arguments, to approve, to change or to reject. */
export function Approval({ approval }: { approval: Ask }) {
  const { pending, approve, reject, edit } = approval
  const original = JSON.stringify(pending?.args ?? {}, null, 2)
  const [text, setText] = useState(original)
  const [fault, setFault] = useState<unknown>()
  const work = (job: () => Promise<void>) => () => {
    setFault(undefined)
    job().catch(setFault)
  }
  const agree = work(async () => (text === original ? approve() : edit(JSON.parse(text))))
  if (!pending) return null
  return (
    <section className="card approval" aria-label={`${pending.toolName} needs your approval`}>
      <h3>
        <code>{pending.toolName}</code> needs your approval
      </h3>
      <Lines label="Arguments" value={text} onChange={setText} rows={5} />
      <Fault error={fault} />
      <div className="row">
        <button type="button" onClick={agree}>
          {text === original ? 'Approve' : 'Approve as changed'}
        </button>
        <button type="button" className="quiet" onClick={work(reject)}>
          Reject
        </button>
      </div>
    </section>
  )
}
