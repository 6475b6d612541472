import { describe, expect, it } from 'vitest'
import { definePlugin, type Database } from '#core'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { messagingEnv, OpenOracle, oracleId, waitFor } from '../../../test/support/open-oracle.ts'
import {
  bytesOfRecoveryKey,
  keyFor,
  newKey,
  openSecret,
  recoveryKeyOf,
  sealSecret,
} from '../device/secret-storage.ts'
import { keptRecovery } from '../device/recovery.ts'
import { Seal } from '../device/sealing.ts'
import { withMessagingTables } from '../tables.ts'

describe('a recovery key', () => {
  it('is read as other clients write it, and not when a sign is wrong', () => {
    const bytes = Uint8Array.from({ length: 32 }, (_, n) => (n * 37 + 11) % 256)
    const text = recoveryKeyOf(bytes)
    expect(text).toMatch(/^Es[A-Za-z1-9]{2}( [A-Za-z1-9]{1,4})+$/)
    expect(Buffer.from(bytesOfRecoveryKey(text) ?? [])).toEqual(Buffer.from(bytes))
    const wrong = text.replace(/.$/, (last) => (last === '2' ? '3' : '2'))
    expect(bytesOfRecoveryKey(wrong)).toBeUndefined()
    expect(bytesOfRecoveryKey('no recovery key at all, but words')).toBeUndefined()
  })

  it('or a passphrase opens what it sealed, under the same name alone', async () => {
    for (const phrase of [undefined, 'a goat in the well']) {
      const { key, info } = await newKey(phrase)
      const same = await keyFor(info, phrase ?? recoveryKeyOf(key))
      expect(Buffer.from(same ?? [])).toEqual(Buffer.from(key))
      expect(await keyFor(info, 'another goat')).toBeUndefined()
      const sealed = sealSecret(key, 'm.secret', 'seven')
      expect(openSecret(key, 'm.secret', sealed)).toBe('seven')
      expect(openSecret(key, 'm.other', sealed)).toBeUndefined()
    }
  })
})

await onEachDatabase('a device whose keys are gone', ({ databaseUrl }) => {
  let db: Database | undefined
  const probe = definePlugin({
    name: 'table-probe',
    summary: 'Hands the database to the test.',
    setup: (boot) => void (db = boot.db),
  })
  const open = new OpenOracle({ databaseUrl, plugins: [probe] })
  const tables = () => {
    if (!db) throw new Error('There is no database.')
    return withMessagingTables(db)
  }
  const on = () => ({ ...messagingEnv(open.server.url), FEATURES: 'messaging=on' })
  /** Empties the table of the keys, while nobody holds the account. */
  const loseKeys = async () => {
    await open.app.again({ env: { ...on(), FEATURES: 'messaging=off' } })
    await tables().deleteFrom('messaging_keys').execute()
  }
  const ownDevices = () => [...(open.server.accounts.get(oracleId)?.devices.values() ?? [])]

  it('comes back as a new one, signed and with the backup, and asks once for what it cannot read', async () => {
    const ann = await open.person('ann')
    const [room, fresh] = [await open.directRoom(ann), await open.directRoom(ann)]
    open.replies.push('I know you.')
    await ann.say(room, 'I am Ann.')
    await ann.hears(room, 'I know you.')
    const backup = () => open.server.accounts.get(oracleId)?.backup
    await waitFor(async () => Object.keys(backup()?.rooms ?? {}).includes(room))
    const kept = await keptRecovery(tables(), new Seal('ab'.repeat(32)), oracleId)
    expect(kept?.recoveryKey).toMatch(/^Es/)
    const [before] = ownDevices()
    const ownKey = `ed25519:${before?.id}`
    expect(Object.keys(before?.keys?.signatures[oracleId] ?? {}).length).toBeGreaterThan(1)
    // The keys are lost, and what is said meanwhile is for the device that nobody has any more.
    await loseKeys()
    await ann.say(fresh, 'Do you hear me?')
    await ann.say(fresh, 'Hello?')
    // The key of this one was backed up before.
    await ann.say(room, 'Who am I?')
    open.replies.push('You are Ann.')
    const env = { ...on(), MATRIX_RECOVERY_PHRASE: kept?.recoveryKey ?? '' }
    await open.app.again({ env })
    await open.loaded()
    await waitFor(async () => ownDevices().length === 1)
    const [now] = ownDevices()
    expect(now?.id).not.toBe(before?.id)
    const signers = Object.keys(now?.keys?.signatures[oracleId] ?? {})
    expect(signers.filter((id) => id !== `ed25519:${now?.id}` && id !== ownKey)).toHaveLength(1)
    await ann.hears(room, 'You are Ann.')
    open.replies.push('Yes, again.')
    await ann.say(room, 'And now?')
    await ann.hears(room, 'Yes, again.')
    const unreadable = async () =>
      (await tables().selectFrom('messaging_events').select('state').execute()).filter(
        ({ state }) => state === 'unreadable',
      ).length
    await waitFor(async () => (await unreadable()) === 2)
    // Five minutes later nobody has sent the missing keys.
    await tables()
      .updateTable('messaging_events')
      .set({ at: Date.now() - 6 * 60_000 })
      .where('state', '=', 'unreadable')
      .execute()
    await ann.say(fresh, '!status')
    await ann.hears(fresh, 'I could not read 2 messages that came while I was away.')
    await ann.say(fresh, '!status')
    const asked = () => ann.seen(fresh).filter(({ body }) => body.startsWith('I could not read'))
    await expect
      .poll(() => ann.seen(fresh).filter(({ body }) => body.startsWith('I take you')).length)
      .toBe(2)
    expect(asked()).toHaveLength(1)
    expect(open.app.log.join('\n')).not.toContain(kept?.recoveryKey ?? 'nothing')
  })

  it('is left as it is by a phrase that is not the account’s', async () => {
    const bob = await open.person('bob')
    const room = await open.directRoom(bob)
    const signing = open.server.accounts.get(oracleId)?.crossSigning
    const version = open.server.accounts.get(oracleId)?.backup?.version
    await loseKeys()
    await tables().updateTable('messaging_account').set({ recovery: null }).execute()
    const env = { ...on(), MATRIX_RECOVERY_PHRASE: 'wrong' }
    await open.app.again({ env })
    await open.loaded()
    open.replies.push('A stranger to myself.')
    await bob.say(room, 'Who are you?')
    await bob.hears(room, 'A stranger to myself.')
    expect(open.app.log.join('\n')).toContain('MATRIX_RECOVERY_PHRASE is not the key')
    expect(open.server.accounts.get(oracleId)?.crossSigning).toEqual(signing)
    expect(open.server.accounts.get(oracleId)?.backup?.version).toBe(version)
  })
})
