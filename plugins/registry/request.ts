import { z } from 'zod'
import { classes, groupType, type TwinClass } from './entities/kinds.ts'
import {
  evaluationSpec,
  mintingSpec,
  type EvaluationSpec,
  type MintingSpec,
} from './evaluation/definition.ts'
import { indexTypes, type IndexType } from './indexes/tables.ts'
import { did, entityId, isObject, name, record, wants, wantsOneOf } from './wants.ts'

const aType = 'the name of an entity type, such as "CookstoveEntity"'
const aRole = 'the name of a role, of at most 100 characters'
const properties = record('an object with the properties that the protocol names')

const fragment = 'a fragment such as "#api"'
const anEndpoint = 'an absolute URL'
const unsafeSchemes = new Set(['javascript:', 'data:', 'vbscript:'])
const isEndpoint = (text: string) =>
  URL.canParse(text) && !unsafeSchemes.has(new URL(text).protocol)

const service = z.object(
  {
    id: z
      .string(wants(fragment))
      .max(200, wants(fragment))
      .regex(/^#[A-Za-z0-9._~!$&'()*+,;=:@/?-]+$/, wants(fragment)),
    type: name(200, 'the type of the service'),
    endpoint: z
      .string(wants(anEndpoint))
      .max(2000, wants(anEndpoint))
      .refine(isEndpoint, wants(anEndpoint)),
  },
  wants('a service: { id, type, endpoint }'),
)
const services = z
  .array(service, wants('a list of services'))
  .max(100, wants('at most 100 services'))
  .refine(
    (list) => new Set(list.map(({ id }) => id)).size === list.length,
    'give every service an id of its own',
  )

const aCredentialType = 'the type of the credential'
const credential = z.looseObject(
  {
    type: z.union(
      [name(200, aCredentialType), z.array(name(200, aCredentialType)).min(1).max(20)],
      wants(aCredentialType),
    ),
    issuer: did('the DID of the issuer'),
  },
  wants('a credential: { type, issuer }'),
)
/** The credentials that an entity presents. */
export const credentialsSchema = z
  .array(credential, wants('a list of credentials'))
  .max(100, wants('at most 100 credentials'))

/** An edge: its role, what it leads to, and its properties. */
export const relationshipSchema = z.object(
  {
    role: name(100, aRole),
    target: entityId('the DID of an entity'),
    properties: record('an object').optional(),
  },
  wants('a relationship: { role, target }'),
)
const relationships = z
  .array(relationshipSchema, wants('a list of relationships'))
  .max(1000, wants('at most 1000 relationships; add others one by one'))
  .refine(
    (list) => new Set(list.map(({ role, target }) => `${target} ${role}`)).size === list.length,
    'an edge stands in it twice',
  )

const aGroup = 'the name of a group: 1 to 64 letters, digits, dots, dashes or underscores'
const groups = z
  .array(
    z.string(wants(aGroup)).regex(/^[A-Za-z0-9._-]{1,64}$/, wants(aGroup)),
    wants('a list of names'),
  )
  .min(1, wants('at least one group'))
  .max(100, wants('at most 100 groups'))
  .refine((list) => new Set(list).size === list.length, 'a group stands in it twice')

const aProtocol = 'the DID of a protocol'
const anEntity = 'a JSON object: { type, protocol, properties }'

/** The request that makes an entity. Only the request for a membership group has no protocol. */
export const entitySchema = z
  .object(
    {
      type: name(100, aType).describe('Type name, such as CookstoveEntity'),
      protocol: entityId(aProtocol).optional().describe('DID of the protocol that it follows'),
      properties: properties.describe('What the protocol names'),
      did: entityId('a DID, or a DID URL with a path').optional().describe('Default: minted'),
      controller: entityId('the DID of the party that may change it')
        .optional()
        .describe('Default: the caller'),
      services: services.optional(),
      verifiableCredential: credentialsSchema.optional(),
      relationships: relationships.optional().describe('Edges to entities that are there'),
      class: z
        .enum(classes, wants(`one of ${classes.join(', ')}`))
        .optional()
        .describe('What kind of twin it is, where its type does not tell'),
      groups: groups.optional().describe('Membership groups of an organisation; default: members'),
    },
    wants(anEntity),
  )
  .refine((entity) => entity?.protocol !== undefined || entity?.type === groupType, {
    path: ['protocol'],
    error: `missing; give ${aProtocol}`,
    when: ({ value }) => isObject(value) && value.protocol === undefined,
  })
/** A request for an entity that passed the schema. */
export type EntityRequest = z.output<typeof entitySchema>

/** The parts of an entity that a merge patch may change, after the registry has applied the patch. */
export const changeableSchema = z.object({
  controller: entityId('the DID of the party that may change it'),
  protocol: entityId(aProtocol).optional(),
  properties,
  services,
  verifiableCredential: credentialsSchema,
  relationships: relationships.optional(),
})
/** The changeable parts of an entity that passed the schema. */
export type Changeable = z.output<typeof changeableSchema>

/** The types that a protocol gives to properties. */
export const typeNames = [
  'string',
  'number',
  'integer',
  'boolean',
  'object',
  'array',
  'date-time',
  'did',
] as const
/** A type that a protocol gives to a property. */
export type TypeName = (typeof typeNames)[number]

/** The rule of a protocol for one property, in full. */
export interface PropertyRule {
  readonly type: TypeName
  readonly required?: boolean
  readonly enum?: readonly unknown[]
  readonly min?: number
  readonly max?: number
  readonly items?: TypeName | PropertyRule
}

/** A protocol without what it inherits. */
export interface ProtocolDefinition {
  readonly type: 'Protocol'
  readonly name?: string
  readonly description?: string
  readonly extends?: string
  readonly properties: Readonly<Record<string, TypeName | PropertyRule>>
  readonly relationships?: Readonly<Record<string, string>>
  readonly mints?: true | string | MintingSpec
  readonly evaluation?: EvaluationSpec
  readonly indexes?: Readonly<Record<string, IndexType>>
  readonly class?: TwinClass
  readonly identifiedBy?: readonly string[]
}

const aProperty = 'the name of a property'
const anIndexType = `one of ${indexTypes.join(', ')}`
const aCredit = 'true or a text, where each entity is a credit for an approved claim'

/** The outline of a protocol; `readDefinition` checks the rules of its properties, and suggests corrections. */
export const protocolSchema = z.object(
  {
    type: z.literal('Protocol', wants('"Protocol"')),
    name: name(200, 'a name of at most 200 characters').optional(),
    description: z
      .string(wants('a text'))
      .max(4000, wants('a text of at most 4000 characters'))
      .optional(),
    extends: entityId('the DID of the protocol that this one customises').optional(),
    properties: record('an object: { name: type } or { name: { type, required? } }').optional(),
    relationships: z
      .record(
        z.string(),
        name(100, 'the kind of entity in this role'),
        wants('an object: { role: kind }'),
      )
      .optional(),
    mints: z
      .union(
        [z.literal(true), name(200, 'what one of them stands for'), mintingSpec],
        wantsOneOf(aCredit),
      )
      .optional(),
    evaluation: evaluationSpec
      .optional()
      .describe('How claims that follow this protocol are evaluated without a hand'),
    indexes: z
      .record(
        z.string(),
        z.enum(indexTypes, wants(anIndexType)),
        wants('an object: { path: type }'),
      )
      .optional()
      .describe('The properties by which queries find and sort'),
    class: z
      .enum(classes, wants(`one of ${classes.join(', ')}`))
      .optional()
      .describe('The class of every entity that follows this protocol'),
    identifiedBy: z
      .array(name(100, aProperty), wants('a list of names of properties'))
      .min(1, wants('at least one name'))
      .max(8, wants('at most eight names'))
      .optional()
      .describe('Properties of which a physical twin has one at least, such as location or serial'),
    did: entityId('a DID, or a DID URL with a path').optional(),
    controller: entityId('the DID of the party that may change it').optional(),
  },
  wants('a JSON object: { type: "Protocol", properties, relationships }'),
)
/** A request for a protocol that passed the schema. */
export type ProtocolRequest = z.output<typeof protocolSchema>
