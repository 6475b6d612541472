import { RuntimeError, type StartedTurn, type Turns } from '#core'
import type { Claims } from '../claims/claims.ts'
import type { Basis } from '../claims/claim.ts'
import { withClaimTables, type ClaimRow } from '../claims/tables.ts'
import type { Protocols } from '../protocols/protocols.ts'
import type { Actor } from '../rights/actor.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { DeclaredEvaluation } from './definition.ts'
import { decide } from './rules.ts'
import { scopeOf } from './scope.ts'
import { noteTurn, turnOf } from './told-turns.ts'
import { evaluationAttempts, readVerdict, verdictTool } from './verdict.ts'

/** What `Evaluations` needs. */
export interface EvaluationsParts {
  readonly db: RegistryDatabase
  readonly claims: Claims
  readonly protocols: Protocols
  readonly oracleDid: string
}

/** What an evaluation needs of its job. */
export interface Evaluating {
  readonly turns: Pick<Turns, 'start' | 'redact'>
  readonly job: { readonly attempt: number; readonly signal: AbortSignal }
}

/** What comes of a claim: a verdict, or a question for a person. */
interface Outcome {
  readonly then: 'approve' | 'reject' | 'ask'
  readonly because: string
  readonly basis: Basis
}

/** The tools of a turn that evaluates, where the protocol names none. */
const usualTools = ['get_entity', 'traverse_entities', 'find_entities', 'find_claims']
const mostNotes = 4000
/** How many bytes of a claim, its asset and its history the agent reads; the claim comes first. */
const mostQuoted = 60_000

/**
 * Evaluates claims without a hand, by the rules of their protocol or by a turn of the agent. The verdict is given in the name
 * of the key that declared the evaluation, so that the rules about who evaluates hold as if that person had said so.
 */
export class Evaluations {
  readonly #parts: EvaluationsParts

  constructor(parts: EvaluationsParts) {
    this.#parts = parts
  }

  /** Evaluates a claim that nobody has decided about; whatever ends the process, another attempt comes to the same. */
  async run(id: string, evaluating: Evaluating): Promise<void> {
    const { db, protocols, claims } = this.#parts
    const row = await withClaimTables(db)
      .selectFrom('registry_claims')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst()
    // A person was faster, or is asked already, or the claim was erased.
    if (row?.status !== 'submitted' || row.review !== 'pending' || row.protocol === null) return
    const checker = await protocols.checker(row.protocol, row.protocol_version ?? 0)
    const evaluation = checker?.evaluation
    if (!evaluation) return
    const actor: Actor = {
      name: evaluation.by,
      did: undefined,
      isOperator: true,
      actsFor: () => true,
    }
    let outcome: Outcome
    try {
      outcome = await this.#outcomeOf(row, evaluation, evaluating)
    } catch (error) {
      evaluating.job.signal.throwIfAborted()
      if (evaluating.job.attempt < evaluationAttempts) throw error
      const why = error instanceof Error ? error.message : String(error)
      outcome = { then: 'ask', because: `The evaluation failed: ${why}`, basis: {} }
    }
    const { then, because, basis } = outcome
    if (then === 'ask') return claims.askPerson(id, because, actor)
    const status = then === 'approve' ? 'approved' : 'rejected'
    const notes = because.slice(0, mostNotes)
    try {
      await claims.evaluate(id, { status, notes }, actor, { ...basis, declaredBy: evaluation.by })
    } catch (error) {
      if (!(error instanceof RuntimeError) || error.status >= 500) throw error
      // The asset names no oracle of this operator, or the person who declared the rules made the claim too.
      await claims.askPerson(id, `${because} But ${error.message}`, actor)
    }
  }

  async #outcomeOf(
    row: ClaimRow,
    evaluation: DeclaredEvaluation,
    evaluating: Evaluating,
  ): Promise<Outcome> {
    const scope = await scopeOf(row, this.#parts.db)
    const { then, because, rule, values } = decide(evaluation, scope)
    const named = Object.keys(values).length > 0
    const basis: Basis = { by: 'rules', ...(rule && { rule }), ...(named && { values }) }
    if (then !== 'agent') return { then, because, basis }
    const { agent } = evaluation
    if (!agent) return { then: 'ask', because, basis }
    const facts = {
      claim: { id: row.id, subject: row.subject, ...scope.roots.claim },
      asset: scope.roots.asset,
      earlier: scope.history.slice(0, 20),
      values,
    }
    return this.#asked(row, agent, facts, evaluating)
  }

  /** Has the agent decide. The turn has a name of its own, so that a later attempt finds the turn of the first. */
  async #asked(
    row: ClaimRow,
    { instructions, tools = usualTools, model }: NonNullable<DeclaredEvaluation['agent']>,
    facts: object,
    { turns, job }: Evaluating,
  ): Promise<Outcome> {
    const { id } = row
    const { db, oracleDid } = this.#parts
    const requestId = turnOf(id)
    const turn = turns.start({
      user: speaking(oracleDid),
      from: 'plugin',
      requestId,
      message:
        `Evaluate the claim ${id}. Look at what you need, then call ${verdictTool} once with your verdict. ` +
        'Say "uncertain" wherever what you can read does not settle it: a person decides then.',
      instructions,
      quoted: Buffer.from(JSON.stringify(facts)).subarray(0, mostQuoted).toString(),
      metadata: { claim: id },
      allow: [...new Set([...tools, verdictTool])],
      ...(model !== undefined && { model }),
    })
    const { runId, sessionId } = await turn.begun
    if (!(await noteTurn(db, row, sessionId))) {
      await turns.redact({ user: { did: oracleDid }, session: sessionId, requestId })
      throw new Error(`The claim ${id} was erased while the agent read it.`)
    }
    const verdict = await verdictOf(turn, job.signal)
    const basis: Basis = { by: 'agent', ...(runId !== undefined && { run: runId }) }
    return { ...verdict, basis }
  }
}

/** The oracle itself speaks: it may talk to its own agent where others need a grant, and no more than that. */
const speaking = (did: string) => ({
  did,
  can: (ability: string) => ability === 'oracle/call',
  denial: () => ['The oracle evaluates here, and changes nothing by its own tools.'],
})

/** The verdict that the agent gave by its tool: the first valid one counts. Without one, a person is asked. */
async function verdictOf(
  turn: StartedTurn,
  signal: AbortSignal,
): Promise<Pick<Outcome, 'then' | 'because'>> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  aborted.catch(() => undefined)
  signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  const reading = (async () => {
    for await (const { event, data } of turn) {
      if (event !== 'tool_call' || data.toolName !== verdictTool || data.status !== 'done') continue
      const verdict = readVerdict(data.args)
      if (typeof verdict !== 'string') return verdict
    }
    return undefined
  })()
  reading.catch(() => undefined)
  const verdict = await Promise.race([reading, aborted])
  if (verdict)
    return {
      then: verdict.verdict === 'uncertain' ? 'ask' : verdict.verdict,
      because: verdict.reasons.join(' '),
    }
  const { status, text, error } = await Promise.race([turn.ended, aborted])
  if (status === 'interrupted')
    throw new Error('The turn of the agent was interrupted by the end of the server.')
  const why = error ? `${error.code}: ${error.message}` : text.slice(0, 500) || status
  return { then: 'ask', because: `The agent gave no verdict (${why}).` }
}
