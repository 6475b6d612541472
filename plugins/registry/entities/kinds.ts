/** The classes of twins, which are independent of their types. */
export const classes = ['physical-twin', 'cognitive-twin', 'twin-system', 'oracle-twin'] as const
/** What kind of twin an entity is. */
export type TwinClass = (typeof classes)[number]

/** The type of membership groups. */
export const groupType = 'MembershipGroup'
/** The role of the edge from a domain to the domains inside it. */
export const contains = 'contains'

/** The class of an entity: the class that its request gives, else the class that its type implies. */
export function classOf(
  type: string,
  given: TwinClass | undefined,
  organisational: ReadonlySet<string>,
): TwinClass | undefined {
  if (given !== undefined) return given
  if (organisational.has(type)) return 'cognitive-twin'
  return type === 'OracleEntity' ? 'oracle-twin' : undefined
}

/** Whether an entity is of the kind that a role of a protocol asks for, by the type or by the class of the entity. */
export function isOfKind(
  { type, class: twinClass }: { readonly type: string; readonly class: string | null },
  kind: string,
): boolean {
  return (
    kind === type ||
    kind === twinClass ||
    kind === 'Entity' ||
    (kind === 'OracleEntity' && twinClass === 'oracle-twin')
  )
}

/** The id of an organisation's group. */
export const groupId = (organisation: string, name: string) => `${organisation}:group:${name}`

/** The organisation and the name in the id of a group. */
export function readGroupId(did: string): { organisation: string; name: string } | undefined {
  const [, organisation, name] = /^(.+):group:([A-Za-z0-9._-]{1,64})$/.exec(did) ?? []
  return organisation === undefined || name === undefined ? undefined : { organisation, name }
}
