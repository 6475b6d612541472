import { RuntimeError } from '#core'
import type { Speech } from './choosing.ts'

/** The services to which sound or words of a call go, by name, as `GET /calls` tells them; undefined where there are none. */
export function consentFor({ hearing, voice }: Speech): string | undefined {
  const names = [hearing, voice].flatMap(({ where, name }) => (where === 'service' ? [name] : []))
  return names.length === 0 ? undefined : [...new Set(names)].join(', ')
}

/** Refuses a call whose page does not say that the person consents to each service by its name. */
export function demandConsent(needed: string | undefined, given: string | null | undefined): void {
  if (needed === undefined) return
  const named = (given ?? '').split(',').map((name) => name.trim())
  if (needed.split(', ').every((name) => named.includes(name))) return
  throw new RuntimeError('CONSENT_NEEDED', `Sound or words of a call go to ${needed}.`, {
    status: 409,
    hint: `Ask the person, and send consent: ${JSON.stringify(needed)} once they agree.`,
    details: { consent: needed },
  })
}
