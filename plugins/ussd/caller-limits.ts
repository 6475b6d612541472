import { RuntimeError } from '#core'
import { gatewayList } from './gateways.ts'

/** The variables that say who may call, and how often. */
interface Rules {
  readonly USSD_RATE_LIMIT_PER_MINUTE: number
  readonly USSD_TRUSTED_GATEWAYS: string
  readonly USSD_TRUSTED_GATEWAYS_ONLY: boolean
}

/** Makes the limits of routes that gateways call: by address, and by phone number for the gateways that are trusted. */
export function callerLimits({
  USSD_RATE_LIMIT_PER_MINUTE: max,
  USSD_TRUSTED_GATEWAYS: trusted,
  USSD_TRUSTED_GATEWAYS_ONLY: only,
}: Rules) {
  const isTrusted = gatewayList(trusted)
  return (phoneOf: (body: unknown) => string | undefined) => ({
    max,
    perMs: 60_000,
    async by({ ip }: { ip: string }, body: () => Promise<unknown>) {
      if (!isTrusted(ip)) {
        // A stranger is refused here, before the server reads the body of the request.
        if (only) throw noGateway(ip)
        return undefined
      }
      // A request that cannot be read counts for the address, and the route answers it.
      const read = await body().catch(() => undefined)
      return read === undefined ? undefined : phoneOf(read)
    },
  })
}

const noGateway = (ip: string) =>
  new RuntimeError('FORBIDDEN', `${ip} is no gateway of this service.`, {
    hint: 'The operator lists gateways in USSD_TRUSTED_GATEWAYS; behind a proxy TRUST_PROXY_ENABLED=true is needed.',
  })
