import { z } from 'zod'
import { pageSchema } from '../reading/query.ts'
import { did, entityId, name, record, wants } from '../wants.ts'

const aType = 'the type of the claim, such as "CookingSession"'
const anAsset = 'the DID of the asset that the claim is about'

const aUri = 'an absolute URI of at most 2000 characters'
const aHash = 'a hash as multibase, such as "zQm…"'
/** What else a piece of evidence had, such as a `url`, would be missing in the credential, which says what was proved. */
const evidence = z.strictObject(
  {
    id: z.string(wants(aUri)).max(2000, wants(aUri)).refine(URL.canParse, wants(aUri)).optional(),
    type: name(200, 'the type of the evidence'),
    name: name(200, 'a name of at most 200 characters').optional(),
    digestMultibase: z
      .string(wants(aHash))
      .regex(/^[a-zA-Z][A-Za-z0-9_=-]{8,200}$/, wants(aHash))
      .optional()
      .describe('Says that what lies at id is still what it was'),
  },
  wants('a piece of evidence: { type, id?, name?, digestMultibase? }'),
)

/** Finds a name that begins with @: software that reads the later credential as JSON-LD would take the name for a keyword. */
function keywordIn(value: unknown, path: string): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  for (const [name, member] of Object.entries(value)) {
    const here = `${path}.${name}`
    const found = name.startsWith('@') ? here : keywordIn(member, here)
    if (found !== undefined) return found
  }
  return undefined
}

const properties = record('an object with what is claimed').superRefine((value, ctx) => {
  const keyword = keywordIn(value, 'properties')
  if (keyword === undefined) return
  const path = keyword.split('.').slice(1)
  ctx.addIssue({ code: 'custom', path, message: 'give it a name that does not begin with @' })
})

/** The body of a request that submits a claim. */
export const claimSchema = z.object(
  {
    subject: entityId(anAsset).describe('DID of the asset'),
    type: name(100, aType).describe('What kind of claim it is, such as CookingSession'),
    properties: properties.describe('What is claimed'),
    protocol: entityId('the DID of a protocol')
      .optional()
      .describe('DID of the protocol that the properties follow'),
    evidence: z
      .array(evidence, wants('a list of evidence'))
      .max(50, wants('at most 50 pieces of evidence'))
      .optional(),
    submitter: did('the DID of the party that claims it')
      .optional()
      .describe('Default: the caller, or with an API key the asset'),
  },
  wants('a JSON object: { subject, type, properties }'),
)
/** A claim that passed the schema. */
export type ClaimRequest = z.output<typeof claimSchema>

/** The body of a request that fills in an open claim: its asset, type and protocol are there already. */
export const answerSchema = claimSchema.pick({ properties: true, evidence: true, submitter: true })
/** What fills in an open claim. */
export type ClaimAnswer = z.output<typeof answerSchema>

const someNotes = 'notes of at most 4000 characters'
const reason = z.string(wants(someNotes)).max(4000, wants(someNotes))

/** The body of a request that evaluates a claim. */
export const evaluationSchema = z.object(
  {
    status: z.enum(['approved', 'rejected'], wants('"approved" or "rejected"')),
    oracle: entityId('the DID of the oracle that evaluates')
      .optional()
      .describe('DID of the evaluating oracle twin; default: the only verifier that the asset has'),
    notes: reason.optional().describe('Why'),
  },
  wants('a JSON object: { oracle, status }'),
)
/** A verdict that passed the schema. */
export type EvaluationRequest = z.output<typeof evaluationSchema>

/** The query of a list of claims. */
export const claimsQuery = pageSchema.extend({
  subject: z.string().optional(),
  type: z.string().optional(),
  status: z
    .enum(
      ['open', 'submitted', 'approved', 'rejected'],
      wants('"open", "submitted", "approved" or "rejected"'),
    )
    .optional(),
  submitter: z.string().optional(),
  oracle: z.string().optional(),
  protocol: z.string().optional(),
  review: z.enum(['pending', 'asked'], wants('"pending" or "asked"')).optional(),
})
/** A question for claims that passed the schema. */
export type ClaimsQuery = z.output<typeof claimsQuery>

/** The filters by which the agent narrows a list of claims. */
export const findClaimsSchema = claimsQuery.extend({
  limit: z.number().int().min(1).max(100).default(20),
})

/** The query of a list of credentials. */
export const credentialsQuery = pageSchema.extend({
  subject: z.string().optional(),
  oracle: z.string().optional(),
  claim: z.string().optional(),
  status: z.enum(['valid', 'revoked'], wants('"valid" or "revoked"')).optional(),
})
/** A question for credentials that passed the schema. */
export type CredentialsQuery = z.output<typeof credentialsQuery>

/** The body of a request that revokes a credential. */
export const revocationSchema = z.object({ reason: reason.optional() })
