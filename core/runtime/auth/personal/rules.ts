import { RuntimeError } from '../../../errors.ts'
import type { AnyRoute, User } from '../../../plugin.ts'
import { keyAbilities } from './personal-keys.ts'

/** What a key must be able to open a route, for routes that ask for none of the abilities of keys by `can`. */
const usual = 'oracle/call'

/** The abilities of the key that proved a user; undefined where no key did. */
const abilitiesOf = (user: User | undefined): readonly string[] | undefined =>
  user && 'key' in user && isKey(user.key) ? user.key.can : undefined

const isSelf = (user: User | undefined): boolean =>
  user !== undefined && 'isSelf' in user && user.isSelf === true

const isKey = (key: unknown): key is { readonly can: readonly string[] } =>
  typeof key === 'object' && key !== null && 'can' in key && Array.isArray(key.can)

/**
 * Throws where a personal key proved the user and the route takes none, or wants an ability that the key lacks, and where
 * somebody else's key signed for a user who has to do so in person.
 */
export function demandOfKey(user: User | undefined, route: Pick<AnyRoute, 'signed' | 'can'>): void {
  const can = abilitiesOf(user)
  if (can === undefined) {
    if (route.signed === 'self' && !isSelf(user)) throw notInPerson()
    return
  }
  if (route.signed) throw keyTooWeak('This takes a signed request, and no personal key opens it.')
  const asked = route.can?.can
  const wanted = keyAbilities.find((each) => each === asked) ?? usual
  if (!can.includes(wanted))
    throw keyTooWeak(
      `The key lacks "${wanted}".`,
      `Make a key with it: POST /keys { "can": ["${wanted}"] }.`,
    )
}

/** Whether a key, or anything else that proved the user, opens what a web module serves to its users. */
export const opensWeb = (user: User): boolean => abilitiesOf(user)?.includes(usual) !== false

/** The refusal of a key where more than a key is wanted. */
export const keyTooWeak = (
  message: string,
  hint = 'Sign the request with a UCAN invocation and "X-Auth-Type: ucan".',
): RuntimeError => new RuntimeError('KEY_TOO_WEAK', message, { hint })

const notInPerson = (): RuntimeError =>
  new RuntimeError('FORBIDDEN', 'A delegation does not reach this: it would outlive it.', {
    hint: 'Sign the request with the key of the DID itself.',
  })

/** The refusal of the operator's API key where a person is meant. */
export const keyHasNoUser = (): RuntimeError =>
  new RuntimeError('KEY_HAS_NO_USER', 'The API key belongs to no person, and this is for people.', {
    hint: 'Make a personal key: POST /keys, or npm run key for the development user.',
  })
