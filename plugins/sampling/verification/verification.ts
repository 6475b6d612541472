import { mustBeAnother, type Who } from '../access.ts'
import { conflicting, invalid } from '../refusal.ts'
import type { Verification } from '../request.ts'
import type { RevisionRow } from '../tables.ts'
import { parsed, type SampleDesign, type VerificationState } from '../design/record.ts'
import { mustBeComplete } from './submission.ts'

const nextSteps: Readonly<Record<VerificationState['status'], readonly string[]>> = {
  draft: ['submitted'],
  submitted: ['approved', 'rejected'],
  approved: [],
  rejected: [],
}

const hints: Readonly<Record<VerificationState['status'], string>> = {
  draft: 'Submit it first.',
  submitted: 'It waits to be approved or rejected.',
  approved: 'A recalculation makes a new draft.',
  rejected: 'A recalculation makes a new draft.',
}

/** The state of a design after a step; refuses a step that is not the next one, or that the caller may not take. */
export function nextState(
  row: RevisionRow,
  design: SampleDesign,
  step: Verification,
  makers: ReadonlySet<string>,
  who: Who,
): VerificationState {
  if (makers.has(step.verifier))
    throw invalid(
      'verifier',
      `${step.verifier} made the design, and cannot verify it`,
      'Name an external verifier.',
    )
  const state = parsed<VerificationState>(row.verification)
  if (!nextSteps[state.status].includes(step.status))
    throw conflicting(
      `The design is ${state.status}; it cannot become ${step.status}.`,
      hints[state.status],
      { field: 'status', value: step.status, present: state.status },
    )
  if (step.status === 'submitted') mustBeComplete(design, step)
  else mustBeAnother(makers, who)
  const timestamp = new Date().toISOString()
  const { status, verifier, notes, projects = state.projects } = step
  const { verifierDraws = state.verifierDraws } = step
  const commitment = state.commitment ?? design.selection?.number
  const entry = { status, verifier, timestamp, ...(notes !== undefined && { notes }) }
  return {
    ...entry,
    ...(projects && { projects }),
    ...(verifierDraws !== undefined && { verifierDraws }),
    ...(commitment !== undefined && { commitment }),
    history: [...(state.history ?? []), { ...entry, recordedBy: who.caller }],
  }
}
