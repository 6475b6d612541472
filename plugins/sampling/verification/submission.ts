import { deviationOf } from '../arithmetic/deviation.ts'
import { RuntimeError } from '#core'
import type { Verification } from '../request.ts'
import type { SampleDesign } from '../design/record.ts'

/** Something that a submission lacks: where it belongs, and what is wanted. */
export interface Missing {
  readonly path: string
  readonly message: string
}

/** Refuses to submit a design that lacks what a verifier needs; one refusal names every missing piece. */
export function mustBeComplete(design: SampleDesign, step: Verification): void {
  const missing = missingPieces(design, step)
  if (missing.length === 0) return
  throw new RuntimeError(
    'UNPROCESSABLE',
    `The design cannot be submitted: ${missing.map(({ path }) => path).join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing.`,
    {
      hint: 'details.missing says what each piece is. A recalculation takes justification, erCoverage and the basis of strata.',
      details: { field: 'status', value: 'submitted', missing },
    },
  )
}

/** Everything that a submission lacks, in the order of the rules of sampling. */
export function missingPieces(design: SampleDesign, step: Verification): Missing[] {
  return [
    ...justifications(design),
    ...coverage(design),
    ...bases(design),
    ...selection(design, step),
    ...projects(design, step),
  ]
}

/** Rule 4: mean and deviation are justified, and the deviation is calculated. */
function justifications({ parameters, justification }: SampleDesign): Missing[] {
  const missing: Missing[] = []
  if (!justification?.mean)
    missing.push({
      path: 'justification.mean',
      message: 'What supports the mean, with its source.',
    })
  if (parameters.estimator === 'proportion') return missing
  if (!justification?.sd)
    missing.push({
      path: 'justification.sd',
      message: 'What supports the standard deviation, with its source.',
    })
  const calculation = justification?.sdCalculation
  if (!calculation)
    missing.push({
      path: 'justification.sdCalculation',
      message: 'How the standard deviation was calculated: a text, or the values themselves.',
    })
  else if (calculation.data) {
    const found = deviationOf(calculation.data, parameters.expectedSD ?? 0)
    if (!found.agrees)
      missing.push({
        path: 'justification.sdCalculation',
        message: `A calculation of the standard deviation ${parameters.expectedSD}: the values that were given have ${found.sd}.`,
      })
  }
  return missing
}

/** Rule 5: the coverage is documented, and does not merely stand in for what nobody said. */
const coverage = ({ parameters }: SampleDesign): Missing[] =>
  parameters.erCoverageBasis === 'given'
    ? []
    : [
        {
          path: 'erCoverage',
          message: 'The fraction of emission reductions that the sample covers.',
        },
      ]

/** Rule 8: every stratum says what it is based on. */
const bases = ({ stratification }: SampleDesign): Missing[] =>
  (stratification?.strata ?? []).flatMap(({ name, basis }, index) =>
    basis === undefined
      ? [
          {
            path: `stratification.strata.${index}.basis`,
            message: `What stratum "${name}" is based on: a baseline survey, socio-economic factors or geography.`,
          },
        ]
      : [],
  )

/** Rule 10: the frame says where the non-adopters are, and nobody could choose the sample. */
function selection({ selection }: SampleDesign, step: Verification): Missing[] {
  const missing: Missing[] = []
  if (!selection)
    return [
      { path: 'frame', message: 'A committed frame: POST …/selection/commit.' },
      { path: 'frame.nonAdopters', message: markWanted },
      ...(step.verifierDraws ? [] : [{ path: 'selection', message: selectionWanted }]),
    ]
  if (selection.frame.nonAdopters === undefined)
    missing.push({ path: 'frame.nonAdopters', message: markWanted })
  const { verifier, selectedAt, verifiable, source } = selection
  const isVerifiers = source === 'verifier' || verifier !== undefined
  if (verifier !== undefined && verifier !== step.verifier)
    missing.push({
      path: 'selection',
      message: `A selection that ${step.verifier} drew, or one that everybody can check: ${verifier} drew this one.`,
    })
  else if (!isVerifiers && !step.verifierDraws && !(verifiable && selectedAt !== undefined))
    missing.push({
      path: 'selection',
      message: !verifiable
        ? `${selectionWanted} The value of this one is the caller’s own ("verifiable": false).`
        : `${selectionWanted} The sample is not drawn yet.`,
    })
  return missing
}

const markWanted =
  'Whether the frame lists non-adopters: nonAdopters "included" with their counts, or "none".'
const selectionWanted =
  'A sample drawn with the value of a public beacon (drand or the ledger), or "verifierDraws": true.'

/** Rule 10: a list of active and planned projects goes with the submission. */
const projects = ({ verification }: SampleDesign, step: Verification): Missing[] =>
  (step.projects ?? verification.projects ?? []).length > 0
    ? []
    : [{ path: 'projects', message: 'The list of active and planned projects, each with its DID.' }]
