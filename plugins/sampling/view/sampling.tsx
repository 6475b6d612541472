import { useEffect, useState } from 'react'
import { Fault, NumberField, TextField, useAnswer, useHost } from 'oracle-runtime-client/view'
import { Plot, type Point } from './plot.tsx'
import { Selection } from './selection.tsx'

interface Stratum {
  readonly name: string
  readonly weight: string
}

/** The parts of a design that this page shows. */
export interface Design {
  readonly designId: string
  readonly revision: number
  readonly final: boolean
  readonly parameters: {
    readonly calculatedSize: number
    readonly adjustedSize: number
    readonly population: number
  }
  readonly stratification?: {
    readonly method: string
    readonly strata: readonly {
      readonly name: string
      readonly weight: number
      readonly population: number
      readonly requiredSize: number
      readonly sampleSize: number
    }[]
  }
  readonly warnings: readonly { readonly code: string; readonly message: string }[]
}

interface Step {
  readonly step: string
  readonly formula: string
  readonly result: string
}

const axes = {
  precision: { label: 'Precision', chosen: () => 0.05 },
  expectedSD: { label: 'Standard deviation', chosen: (from: Inputs) => +from.expectedSD },
  expectedMean: { label: 'Mean', chosen: (from: Inputs) => +from.expectedMean },
  dropoutRate: { label: 'Dropout', chosen: (from: Inputs) => +from.dropoutRate },
} as const
type Axis = keyof typeof axes
type Curve = Readonly<Record<Axis, readonly Point[]>>

type Inputs = typeof start
const start = {
  projectId: 'did:ixo:entity:clean-cooking',
  population: '5000',
  expectedMean: '0.8',
  expectedSD: '0.2',
  dropoutRate: '0.15',
}

/**
 * The calculator: sizes while the user types, a stored design on request, and the draw. Most of the function's length is
 * markup: a field for each input of a design and a figure for each result.
 */
export function SamplingView() {
  const { ask } = useHost()
  const [inputs, setInputs] = useState(start)
  const [strata, setStrata] = useState<readonly Stratum[]>([])
  const [method, setMethod] = useState('proportional')
  const [axis, setAxis] = useState<Axis>('precision')
  const [design, setDesign] = useState<Design>()
  const [steps, setSteps] = useState<readonly Step[]>([])
  const [fault, setFault] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const query = useSettled(curveQuery(inputs), 250)
  const curve = useAnswer<Curve>(query && `/v1/sampling/curve?${query}`)
  const set = (name: keyof Inputs) => (value: string) => setInputs({ ...inputs, [name]: value })

  async function work() {
    setBusy(true)
    setFault(undefined)
    try {
      const made = await ask<Design>('/v1/sampling', {
        body: {
          projectId: inputs.projectId,
          confidence: 0.95,
          precision: 0.05,
          population: +inputs.population,
          expectedMean: +inputs.expectedMean,
          expectedSD: +inputs.expectedSD,
          dropoutRate: +inputs.dropoutRate,
          stratification: strata.length
            ? {
                enabled: true,
                method,
                strata: strata.map(({ name, weight }) => ({ name, weight: +weight })),
              }
            : { enabled: false },
        },
      })
      const told = await ask<{ steps: Step[] }>(`/v1/sampling/${made.designId}/explanation`)
      setDesign(made)
      setSteps(told.steps)
    } catch (error) {
      setFault(error)
    } finally {
      setBusy(false)
    }
  }

  return (
    <>
      <p className="lead">
        How many households must be asked so that the mean is within 5 % with 95 % confidence.
      </p>
      <div className="columns">
        <form
          className="card fields"
          aria-label="Sample design"
          onSubmit={(event) => {
            event.preventDefault()
            void work()
          }}
        >
          <TextField
            label="Project"
            value={inputs.projectId}
            onChange={set('projectId')}
            required
          />
          <NumberField
            label="Population"
            value={inputs.population}
            onChange={set('population')}
            min={2}
            step={1}
          />
          <NumberField
            label="Expected mean"
            value={inputs.expectedMean}
            onChange={set('expectedMean')}
            min={0}
          />
          <NumberField
            label="Expected standard deviation"
            value={inputs.expectedSD}
            onChange={set('expectedSD')}
            min={0}
          />
          <NumberField
            label="Dropout rate"
            value={inputs.dropoutRate}
            onChange={set('dropoutRate')}
            min={0}
            max={0.99}
          />
          <Strata strata={strata} onChange={setStrata} method={method} onMethod={setMethod} />
          <Fault error={fault} />
          <button type="submit" disabled={busy}>
            Work it out and keep it
          </button>
        </form>

        <section className="card" aria-labelledby="plot-title">
          <div className="row spread">
            <h2 id="plot-title">Size against {axes[axis].label.toLowerCase()}</h2>
            <label>
              <span className="hidden">What the plot runs over</span>
              <select value={axis} onChange={(event) => setAxis(event.target.value as Axis)}>
                {Object.entries(axes).map(([name, { label }]) => (
                  <option key={name} value={name}>
                    {label}
                  </option>
                ))}
              </select>
            </label>
          </div>
          <Fault error={curve.error} />
          {curve.data && (
            <Plot
              points={curve.data[axis]}
              label={axes[axis].label}
              chosen={axes[axis].chosen(inputs)}
            />
          )}
        </section>
      </div>

      {design && (
        <>
          <section className="card" aria-labelledby="result-title" aria-live="polite">
            <h2 id="result-title">The design</h2>
            <dl className="figures">
              <div>
                <dt>Answers needed</dt>
                <dd>{design.parameters.calculatedSize}</dd>
              </div>
              <div>
                <dt>To be drawn, with dropout</dt>
                <dd className="strong">{design.parameters.adjustedSize}</dd>
              </div>
              <div>
                <dt>Of</dt>
                <dd>{design.parameters.population}</dd>
              </div>
              <div>
                <dt>Revision</dt>
                <dd>{design.revision}</dd>
              </div>
            </dl>
            {design.stratification && <StrataTable of={design.stratification} />}
            <h3>Step by step</h3>
            <ol className="steps">
              {steps.map(({ step, formula, result }) => (
                <li key={step}>
                  <strong>{step}</strong>
                  <code>{formula}</code>
                  <output>{result}</output>
                </li>
              ))}
            </ol>
            {design.warnings.length > 0 && (
              <details>
                <summary>{design.warnings.length} things to document</summary>
                <ul>
                  {design.warnings.map(({ message }) => (
                    <li key={message}>{message}</li>
                  ))}
                </ul>
              </details>
            )}
            <p className="faint">
              Record <code>{design.designId}</code>
            </p>
          </section>
          <Selection key={design.designId} design={design} />
        </>
      )}
    </>
  )
}

function Strata(props: {
  strata: readonly Stratum[]
  onChange: (strata: readonly Stratum[]) => void
  method: string
  onMethod: (method: string) => void
}) {
  const { strata, onChange, method, onMethod } = props
  const change = (at: number, part: Partial<Stratum>) =>
    onChange(strata.map((one, index) => (index === at ? { ...one, ...part } : one)))
  return (
    <fieldset>
      <legend>Strata</legend>
      {strata.map((stratum, index) => (
        <div className="row" key={index}>
          <TextField
            label="Name"
            value={stratum.name}
            onChange={(name) => change(index, { name })}
            required
          />
          <NumberField
            label="Weight"
            value={stratum.weight}
            onChange={(weight) => change(index, { weight })}
            min={0}
            max={1}
          />
          <button
            type="button"
            className="quiet"
            aria-label={`Remove stratum ${stratum.name}`}
            onClick={() => onChange(strata.filter((_, at) => at !== index))}
          >
            ✕
          </button>
        </div>
      ))}
      <div className="row">
        <button
          type="button"
          className="quiet"
          onClick={() =>
            onChange(
              strata.length
                ? [...strata, { name: `stratum ${strata.length + 1}`, weight: '0' }]
                : [
                    { name: 'urban', weight: '0.6' },
                    { name: 'rural', weight: '0.4' },
                  ],
            )
          }
        >
          Add {strata.length ? 'a stratum' : 'strata'}
        </button>
        {strata.length > 0 && (
          <label>
            Method{' '}
            <select value={method} onChange={(event) => onMethod(event.target.value)}>
              <option>proportional</option>
              <option>independent</option>
              <option>pooled</option>
            </select>
          </label>
        )}
      </div>
    </fieldset>
  )
}

function StrataTable({ of }: { of: NonNullable<Design['stratification']> }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Strata of the design">
      <table>
        <thead>
          <tr>
            <th scope="col">Stratum</th>
            <th scope="col">Weight</th>
            <th scope="col">Population</th>
            <th scope="col">Needs</th>
            <th scope="col">Sample</th>
          </tr>
        </thead>
        <tbody>
          {of.strata.map((one) => (
            <tr key={one.name}>
              <th scope="row">{one.name}</th>
              <td>{one.weight}</td>
              <td>{one.population}</td>
              <td>{one.requiredSize}</td>
              <td>{one.sampleSize}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function curveQuery(inputs: Inputs): string | undefined {
  const { population, expectedMean, expectedSD, dropoutRate } = inputs
  if (!(+population >= 2) || !(+expectedMean > 0) || expectedSD === '' || dropoutRate === '')
    return undefined
  return new URLSearchParams({ population, expectedMean, expectedSD, dropoutRate }).toString()
}

/** The last value that has not changed for `ms` milliseconds. */
function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms)
    return () => clearTimeout(timer)
  }, [value, ms])
  return settled
}
