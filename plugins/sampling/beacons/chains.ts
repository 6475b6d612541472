/** A chain of drand: where its rounds stand in time, and the key that signs them. */
export interface Chain {
  readonly hash: string
  readonly name: 'default' | 'quicknet'
  /** The time of the first round, in seconds since 1970. */
  readonly genesis: number
  /** The seconds between two rounds. */
  readonly period: number
  readonly publicKey: string
  /** Chained: a round signs the signature of the round before. On G2 a signature has 96 bytes, on G1 it has 48. */
  readonly scheme: 'pedersen-bls-chained' | 'bls-unchained-g1-rfc9380'
  readonly signatureBytes: 96 | 48
}

/**
 * The chains of the League of Entropy, with the constants that the drand client is published with (drand/drand-client,
 * lib/defaults.ts) and that `/info` of each chain answers.
 */
export const chains: readonly Chain[] = [
  {
    hash: '8990e7a9aaed2ffed73dbd7092123d6f289930540d7651336225dc172e51b2ce',
    name: 'default',
    genesis: 1_595_431_050,
    period: 30,
    publicKey:
      '868f005eb8e6e4ca0a47c8a77ceaa5309a47978a7c71bc5cce96366b5d7a569937c529eeda66c7293784a9402801af31',
    scheme: 'pedersen-bls-chained',
    signatureBytes: 96,
  },
  {
    hash: '52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971',
    name: 'quicknet',
    genesis: 1_692_803_367,
    period: 3,
    publicKey:
      '83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d106451' +
      '0d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a',
    scheme: 'bls-unchained-g1-rfc9380',
    signatureBytes: 48,
  },
]

/** The chain with a name or a hash; undefined for a chain that is not known. */
export const chainNamed = (named: string): Chain | undefined =>
  chains.find(({ hash, name }) => hash === named || name === named)

/** When a chain publishes a round, in milliseconds since 1970. */
export const timeOf = ({ genesis, period }: Chain, round: number): number =>
  (genesis + (round - 1) * period) * 1000

/** The first round that a chain publishes at or after a time. */
export const roundAt = ({ genesis, period }: Chain, time: number): number =>
  Math.max(1, Math.ceil((time / 1000 - genesis) / period) + 1)
