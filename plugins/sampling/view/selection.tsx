import { useState } from 'react'
import { Fault, LinesField, TextField, useHost } from 'oracle-runtime-client/view'
import { audit, type Audit, type Drawn } from './audit.ts'
import type { Design } from './sampling.tsx'

interface Commitment {
  readonly frameDigest: string
  readonly committedAt: string
  readonly round: string | number
}

/**
 * The draw: the user freezes the list, names a round, reveals its value, and lets this page check the draw. The steps are
 * in one function because each step reads the state that the step before it has set.
 */
export function Selection({ design }: { design: Design }) {
  const names = design.stratification?.strata.map(({ name }) => name) ?? ['all']
  const { ask } = useHost()
  const [ids, setIds] = useState('')
  const [round, setRound] = useState('')
  const [beaconHex, setBeaconHex] = useState('')
  const [commitment, setCommitment] = useState<Commitment>()
  const [drawn, setDrawn] = useState<Drawn>()
  const [checked, setChecked] = useState<Audit>()
  const [fault, setFault] = useState<unknown>()
  const frame = frameOf(ids, names)
  const path = `/v1/sampling/${design.designId}/selection`

  const step = (work: () => Promise<void>) => () => {
    setFault(undefined)
    work().catch(setFault)
  }
  const commit = step(async () =>
    setCommitment(
      await ask<Commitment>(`${path}/commit`, {
        body: { frame, beacon: { source: 'caller', round } },
      }),
    ),
  )
  const reveal = step(async () => {
    const answer = await ask<Drawn>(path, {
      body: { beaconHex: beaconHex.trim().toLowerCase(), reserves: 5 },
    })
    setDrawn(answer)
    setChecked(await audit(answer, frame))
  })
  const fill = () => {
    const parts = design.stratification?.strata ?? [
      { name: 'all', population: design.parameters.population },
    ]
    setIds(
      parts
        .flatMap(({ name, population }) =>
          Array.from(
            { length: population },
            (_, at) => `${names.length > 1 ? `${name}\t` : ''}household-${name}-${at + 1}`,
          ),
        )
        .join('\n'),
    )
    setRound(`draw of ${new Date().toISOString().slice(0, 10)}`)
  }

  return (
    <section className="card" aria-labelledby="selection-title">
      <h2 id="selection-title">The draw</h2>
      <ol className="stages">
        <li aria-current={commitment ? undefined : 'step'}>
          <h3>Freeze the list</h3>
          <LinesField
            label="Households"
            value={ids}
            onChange={setIds}
            about={
              names.length > 1
                ? 'One a line: stratum, tab, id.'
                : 'One id a line. All of them, non-adopters included.'
            }
          />
          <TextField
            label="Round of a public beacon that is still to come"
            value={round}
            onChange={setRound}
          />
          <div className="row">
            <button
              type="button"
              onClick={commit}
              disabled={!ids.trim() || !round || commitment !== undefined}
            >
              Commit
            </button>
            <button
              type="button"
              className="quiet"
              onClick={fill}
              disabled={commitment !== undefined}
            >
              Make up {design.parameters.population.toLocaleString('en')} households
            </button>
          </div>
          {commitment && (
            <p className="faint">
              Frozen at <time>{commitment.committedAt}</time> as{' '}
              <code className="break">{commitment.frameDigest}</code>
            </p>
          )}
        </li>
        <li aria-current={commitment && !drawn ? 'step' : undefined}>
          <h3>Reveal the value</h3>
          <TextField
            label="Value of the round, in hex digits"
            value={beaconHex}
            onChange={setBeaconHex}
          />
          <p className="faint">
            A value of your own proves nothing to others, and the record says so. For a sample that
            counts, commit to a round of drand.
          </p>
          <div className="row">
            <button
              type="button"
              onClick={reveal}
              disabled={!commitment || !beaconHex || drawn !== undefined}
            >
              Draw
            </button>
            <button
              type="button"
              className="quiet"
              onClick={() => setBeaconHex(random())}
              disabled={drawn !== undefined}
            >
              Throw dice
            </button>
          </div>
        </li>
        <li aria-current={drawn ? 'step' : undefined}>
          <h3>Check it</h3>
          {!drawn && (
            <p className="faint">Everybody with the list can. This page will, with its own code.</p>
          )}
          {checked && (
            <p role="status" className={checked.faults.length ? 'fault' : 'good'}>
              {checked.faults.length
                ? checked.faults.join(' ')
                : 'The list has the digest that was committed to, and all ' +
                  `${checked.tickets.toLocaleString('en')} tickets were drawn again: the same ` +
                  'households, in the same order.'}
            </p>
          )}
          {drawn?.strata.map(({ name, ids: chosen, reserves }) => (
            <details key={name}>
              <summary>
                {name}: {chosen.length} drawn, {reserves.length} in reserve
              </summary>
              <p className="ids" tabIndex={0}>
                {chosen.join(', ')}
              </p>
              {reserves.length > 0 && (
                <p className="ids faint">In reserve: {reserves.join(', ')}</p>
              )}
            </details>
          ))}
        </li>
      </ol>
      <Fault error={fault} />
    </section>
  )
}

/** Reads the ids of each stratum from the lines of a text. */
function frameOf(text: string, names: readonly string[]): Record<string, string[]> {
  const frame: Record<string, string[]> = Object.fromEntries(names.map((name) => [name, []]))
  for (const line of text.split('\n')) {
    if (!line.trim()) continue
    const tab = line.indexOf('\t')
    const name = tab > 0 && names.length > 1 ? line.slice(0, tab) : names[0]!
    ;(frame[name] ??= []).push((tab > 0 && names.length > 1 ? line.slice(tab + 1) : line).trim())
  }
  return frame
}

const random = () =>
  [...crypto.getRandomValues(new Uint8Array(32))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('')
