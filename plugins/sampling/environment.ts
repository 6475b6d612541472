import { addressesSchema } from './beacons/addresses.ts'

/** The variables of the plugin. */
export const environment = {
  DRAND_URL: addressesSchema.describe(
    'Relays of drand that rounds are fetched from, with commas between; without one a round is pasted',
  ),
  LEDGER_URL: addressesSchema.describe(
    'REST addresses of the ledger whose block hashes may seed draws, with commas between',
  ),
}
