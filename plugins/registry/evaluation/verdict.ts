import { z } from 'zod'
import { RuntimeError } from '#core'

/** The tool by which a turn that evaluates gives its verdict. Only these turns have it. */
export const verdictTool = 'give_verdict'

/** How many attempts an evaluation gets until a person is asked. */
export const evaluationAttempts = 8

const verdict = z.strictObject({
  verdict: z.enum(['approve', 'reject', 'uncertain']),
  reasons: z.array(z.string().min(1).max(1000)).min(1).max(10),
})
type Verdict = z.output<typeof verdict>

/** A verdict of the agent, or a sentence that says what is wrong with it. */
export function readVerdict(args: unknown): Verdict | string {
  const read = verdict.safeParse(args)
  return read.success ? read.data : z.prettifyError(read.error)
}

/** The tools of a turn that evaluates a claim: none for any other turn. */
export function verdictTools({ origin }: { readonly origin: string | undefined }) {
  if (origin !== 'registry') return undefined
  return {
    [verdictTool]: {
      description:
        'Gives your verdict on the claim and your reasons, a sentence each with the figures it rests on. Call it once, at the end.',
      parameters: {
        type: 'object',
        properties: {
          verdict: { type: 'string', enum: ['approve', 'reject', 'uncertain'] },
          reasons: {
            type: 'array',
            items: { type: 'string', maxLength: 1000 },
            minItems: 1,
            maxItems: 10,
          },
        },
        required: ['verdict', 'reasons'],
        additionalProperties: false,
      },
      // The call stores nothing: who started the turn reads its arguments.
      effect: 'read' as const,
      foreign: false,
      run(args: Readonly<Record<string, unknown>>) {
        const read = readVerdict(args)
        if (typeof read !== 'string') return 'Noted. Say in one sentence what you decided, and end.'
        throw new RuntimeError('INPUT_INVALID', `The verdict cannot be read: ${read}`, {
          hint: 'Give { verdict: "approve", "reject" or "uncertain", reasons: [..] }.',
        })
      },
    },
  }
}
