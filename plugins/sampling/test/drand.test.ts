import { describe, expect, it } from 'vitest'
import { chainNamed, chains, roundAt, timeOf, type Chain } from '../beacons/chains.ts'
import { verifyRound } from '../beacons/drand.ts'
import { answerOf, publishedRounds, roundOf } from '../fixtures/published-rounds.ts'

const knownChain = (name: string): Chain => {
  const chain = chainNamed(name)
  if (!chain) throw new RangeError(name)
  return chain
}
/** A text of hexadecimal digits with one bit turned. */
const flipped = (hex: string, at: number) =>
  hex.slice(0, at) + (parseInt(hex[at] ?? '0', 16) ^ 1).toString(16) + hex.slice(at + 1)

describe.each(publishedRounds)('round $round of $chain, from $source', (published) => {
  const chain = knownChain(published.chain)
  const answer = answerOf(published)

  it('verifies with the key of its chain, and its randomness is the hash of its signature', () => {
    expect(verifyRound(chain, published.round, answer)).toEqual({
      randomness: published.randomness,
      evidence: {
        round: published.round,
        signature: published.signature,
        ...(published.previous_signature !== undefined && {
          previousSignature: published.previous_signature,
        }),
      },
    })
    const { randomness: _, ...bare } = answer
    expect(verifyRound(chain, published.round, bare)).toMatchObject({
      randomness: published.randomness,
    })
  })

  it('fails with one bit off, wherever the bit is', () => {
    const { length } = published.signature
    for (const at of [0, 1, 2, length >> 1, length - 1])
      expect(
        verifyRound(chain, published.round, {
          ...answer,
          signature: flipped(published.signature, at),
        }),
        `digit ${at} of the signature`,
      ).toHaveProperty('fault')
    const randomness = flipped(published.randomness, 63)
    expect(verifyRound(chain, published.round, { ...answer, randomness })).toEqual({
      fault: expect.stringContaining('the hash of its signature'),
    })
    const next = published.round + 1
    expect(verifyRound(chain, next, { ...answer, round: next })).toEqual({
      fault: expect.stringContaining('the key of the chain did not make it'),
    })
    if (published.previous_signature === undefined) return
    const previous = flipped(published.previous_signature, 5)
    expect(
      verifyRound(chain, published.round, { ...answer, previous_signature: previous }),
    ).toHaveProperty('fault')
    const { previous_signature: __, ...unchained } = answer
    expect(verifyRound(chain, published.round, unchained)).toEqual({
      fault: expect.stringContaining('needs its previous_signature'),
    })
  })

  it('is no round of the other chain', () => {
    const other = chains.find(({ name }) => name !== published.chain)
    if (!other) throw new RangeError('there is one chain only')
    expect(verifyRound(other, published.round, answer)).toEqual({
      fault: `a signature of the chain ${other.name} has ${other.signatureBytes * 2} hexadecimal digits, not ${published.signature.length}`,
    })
  })
})

describe('a signature', () => {
  const quicknet = knownChain('quicknet')
  const answer = answerOf(roundOf('quicknet', 1000))

  it('of another length, or of zeros, or of another round is refused and does not throw', () => {
    for (const signature of ['ab', `${answer.signature}00`, answer.signature.slice(2)])
      expect(verifyRound(quicknet, 1000, { ...answer, signature })).toEqual({
        fault: expect.stringContaining('has 96 hexadecimal digits'),
      })
    const other = roundOf('quicknet', 657_413).signature
    // c0 and zeros is the point at infinity, which would verify under a key that is none.
    for (const signature of ['00'.repeat(48), 'ff'.repeat(48), `c0${'00'.repeat(47)}`, other])
      expect(verifyRound(quicknet, 1000, { ...answer, signature, randomness: undefined })).toEqual({
        fault: expect.stringContaining('did not make it'),
      })
    expect(verifyRound(quicknet, 999, answer)).toEqual({
      fault: 'the round is 1000, and 999 was committed',
    })
  })
})

describe('rounds and times', () => {
  it('follow from each other: the first round at or after a time', () => {
    for (const chain of chains)
      for (const round of [1, 2, 1000, 27_946_612]) {
        const at = timeOf(chain, round)
        expect(roundAt(chain, at)).toBe(round)
        expect(roundAt(chain, at + 1)).toBe(round + 1)
        expect(roundAt(chain, at - 1)).toBe(Math.max(1, round))
      }
    expect(roundAt(knownChain('quicknet'), 0)).toBe(1)
  })

  it('are known of two chains, by name or by hash, and of no other', () => {
    for (const chain of chains) expect(knownChain(chain.hash)).toBe(knownChain(chain.name))
    expect(chainNamed('0'.repeat(64))).toBeUndefined()
    expect(chainNamed('caller')).toBeUndefined()
  })
})
