import { randomBytes } from 'node:crypto'
import type { Log } from '#core'
import type { MessagingEnv } from '../environment.ts'
import { path, type ServerApi } from '../server/api.ts'
import { ServerFault } from '../server/fault.ts'
import type { MessagingDatabase } from '../tables.ts'
import type { AtWork, Device } from './device.ts'
import type { Seal } from './sealing.ts'
import {
  type KeyInfo,
  keyFor,
  newKey,
  openSecret,
  recoveryKeyOf,
  sealSecret,
} from './secret-storage.ts'

/** What the recovery of an account's keys works with. */
export interface RecoveryOptions {
  readonly device: Device
  readonly api: ServerApi
  readonly env: MessagingEnv
  readonly seal: Seal
  readonly db: MessagingDatabase
  readonly log: Log
}

/** What is remembered of the recovery: for which device it is done, and the key where this process made it. */
interface Kept {
  readonly deviceId: string
  readonly recoveryKey?: string
}

const secrets = {
  master: 'm.cross_signing.master',
  selfSigning: 'm.cross_signing.self_signing',
  userSigning: 'm.cross_signing.user_signing',
  backup: 'm.megolm_backup.v1',
}
const backupAlgorithm = 'm.megolm_backup.v1.curve25519-aes-sha2'
/** What our devices are called, by which those of before are found. */
export const deviceName = 'Oracle'
/** How many rounds of keys one look puts into the backup. */
const mostRounds = 20

/** Keeps what a lost device needs to come back: the account's signing keys and a backup of the rooms' keys, under one key. */
export class Recovery {
  readonly #options: RecoveryOptions

  constructor(options: RecoveryOptions) {
    this.#options = options
  }

  /** Makes a new device one that others know, or makes the account's first keys. What cannot be done is said in the log. */
  async begin(): Promise<void> {
    const { device, env, log } = this.#options
    const kept = await this.#kept()
    if (kept?.deviceId === device.id) return
    const phrase = env.MATRIX_RECOVERY_PHRASE ?? kept?.recoveryKey
    try {
      const keyId = (await this.#data('m.secret_storage.default_key'))?.key
      const told =
        typeof keyId === 'string' ? await this.#data(`m.secret_storage.key.${keyId}`) : undefined
      const info: KeyInfo | undefined = told && { ...told, algorithm: String(told.algorithm) }
      if (typeof keyId === 'string' && info) await this.#restore(keyId, info, phrase)
      else await this.#make(phrase)
    } catch (thrown) {
      // Without it the oracle answers as before: it is tried again at the next start.
      const cause = thrown instanceof ServerFault ? thrown.message : String(thrown)
      log.warn({ cause }, 'The keys of the account are not recoverable yet')
    }
  }

  /** Puts keys of rooms that came since into the backup. */
  async backUp(): Promise<void> {
    const { device, api } = this.#options
    for (let round = 0; round < mostRounds; round++) {
      const isDone = await device.use(async ({ machine, crypto }) => {
        if (!(await machine.isBackupEnabled())) return true
        const request = await machine.backupRoomKeys()
        if (!request) return true
        const query = { version: request.version }
        const answer = await api.put(path`/room_keys/keys`, JSON.parse(request.body), { query })
        const type = crypto.RequestType.KeysBackup
        await machine.markRequestAsSent(request.id, type, JSON.stringify(answer))
        return false
      })
      if (isDone) return
    }
  }

  /** With the account's own secrets: the device is signed, the backup read, and the device of before ended. */
  async #restore(keyId: string, info: KeyInfo, phrase: string | undefined): Promise<void> {
    const { log, device, api } = this.#options
    if (phrase === undefined)
      return log.info('The account has secret storage. With MATRIX_RECOVERY_PHRASE it is used.')
    const key = await keyFor(info, phrase)
    if (!key)
      return log.warn(
        'MATRIX_RECOVERY_PHRASE is not the key of the secret storage: nothing is used',
      )
    const read = async (name: string) => {
      const sealed = (await this.#data(name))?.encrypted?.[keyId]
      return sealed ? openSecret(key, name, sealed) : undefined
    }
    const [master, own, users] = [
      await read(secrets.master),
      await read(secrets.selfSigning),
      await read(secrets.userSigning),
    ]
    const backupKey = await read(secrets.backup)
    await device.use(async (at) => {
      const { machine, crypto, send } = at
      if (master !== undefined && own !== undefined) {
        // The encryption takes each id away that it is given.
        const userId = () => new crypto.UserId(this.#userId)
        await send(machine.queryKeysForUsers([userId()]))
        await machine.importCrossSigningKeys(master, own, users)
        const me = await machine.getDevice(userId(), new crypto.DeviceId(device.id), 0)
        if (me) await send(await me.verify())
      }
      if (backupKey !== undefined) await this.#readBackup(at, backupKey)
    })
    await this.#endOthers(api)
    await this.#keep({ deviceId: device.id })
    log.info('The device is signed by the account, and the backup of the keys was read')
  }

  /** What was backed up is readable again, and what comes is backed up there, too. */
  async #readBackup({ machine, crypto }: AtWork, text: string): Promise<void> {
    const { api, log } = this.#options
    const backup = await api.get(path`/room_keys/version`).catch(orMissing)
    const key = crypto.BackupDecryptionKey.fromBase64(text)
    const publicKey: string = key.megolmV1PublicKey.publicKeyBase64
    if (typeof backup?.version !== 'string' || backup.auth_data?.public_key !== publicKey) return
    const { version } = backup
    await machine.saveBackupDecryptionKey(key, version)
    await machine.enableBackupV1(publicKey, version)
    const { rooms = {} } = await api.get(path`/room_keys/keys`, { query: { version } })
    const found = new Map()
    let unread = 0
    for (const [roomId, { sessions = {} }] of Object.entries<any>(rooms)) {
      // any: each field is checked by the decryption
      const ofRoom = new Map()
      for (const [id, { session_data: sealed }] of Object.entries<any>(sessions)) {
        try {
          const plain = key.decryptV1(sealed.ephemeral, sealed.mac, sealed.ciphertext)
          ofRoom.set(id, JSON.parse(plain))
        } catch {
          // One that another key sealed, or that the server changed: the others are still good.
          unread++
        }
      }
      found.set(new crypto.RoomId(roomId), ofRoom)
    }
    await machine.importBackedUpRoomKeys(found, () => undefined, version)
    if (unread > 0) log.warn({ unread }, 'Some keys of the backup were not readable')
  }

  /** The first keys of an account that has none: signing keys, a backup, and secret storage around both. */
  async #make(phrase: string | undefined): Promise<void> {
    const { device, api, env, log } = this.#options
    const password = env.MATRIX_ORACLE_ADMIN_PASSWORD
    if (password === undefined)
      return log.info('Without MATRIX_ORACLE_ADMIN_PASSWORD no recovery key is made')
    const made = await device.use(async ({ machine, crypto, send }) => {
      const userId = () => new crypto.UserId(this.#userId)
      await send(machine.queryKeysForUsers([userId()]))
      const { hasMaster } = await machine.crossSigningStatus()
      // Somebody else made the account's keys: they are not ours to replace.
      if (!hasMaster && (await machine.getIdentity(userId()))) return undefined
      const requests = await machine.bootstrapCrossSigning(!hasMaster)
      if (requests.uploadKeysRequest) await send(requests.uploadKeysRequest)
      const signing = JSON.parse(requests.uploadSigningKeysRequest.body)
      await api.withPassword('POST', path`/keys/device_signing/upload`, signing, this.#login)
      await send(requests.uploadSignaturesRequest)
      const exported = await machine.exportCrossSigningKeys()
      const backupKey = crypto.BackupDecryptionKey.createRandomKey()
      const publicKey: string = backupKey.megolmV1PublicKey.publicKeyBase64
      const signatures = await machine.sign(JSON.stringify({ public_key: publicKey }))
      const { version } = await api.post(path`/room_keys/version`, {
        algorithm: backupAlgorithm,
        auth_data: { public_key: publicKey, signatures: JSON.parse(signatures.asJSON()) },
      })
      await machine.saveBackupDecryptionKey(backupKey, String(version))
      await machine.enableBackupV1(publicKey, String(version))
      return {
        [secrets.master]: exported?.masterKey,
        [secrets.selfSigning]: exported?.self_signing_key,
        [secrets.userSigning]: exported?.userSigningKey,
        [secrets.backup]: backupKey.toBase64(),
      }
    })
    if (!made) return log.info('The account has keys that others made: no recovery key is made')
    const { key, info } = await newKey(phrase)
    const keyId = randomBytes(16).toString('hex')
    // Before the account knows the key: whatever ends this process now, the next one has it.
    await this.#keep({ deviceId: '', recoveryKey: recoveryKeyOf(key) })
    const put = (type: string, content: object) =>
      api.put(path`/user/${this.#userId}/account_data/${type}`, content)
    await put(`m.secret_storage.key.${keyId}`, info)
    for (const [name, text] of Object.entries(made))
      if (text !== undefined)
        await put(name, { encrypted: { [keyId]: sealSecret(key, name, text) } })
    await put('m.secret_storage.default_key', { key: keyId })
    await this.#keep({ deviceId: device.id })
    log.info('The account has a recovery key now: npm run messaging -- recovery-key shows it')
  }

  /** Ends the devices of before, which nobody has any more. */
  async #endOthers(api: ServerApi): Promise<void> {
    const { device, env } = this.#options
    if (env.MATRIX_ORACLE_ADMIN_PASSWORD === undefined) return
    const { devices = [] } = await api.get(path`/devices`)
    for (const { device_id: id, display_name: name } of Array.isArray(devices) ? devices : [])
      if (typeof id === 'string' && id !== device.id && name === deviceName)
        await api.withPassword('DELETE', path`/devices/${id}`, {}, this.#login)
  }

  get #userId(): string {
    return this.#options.env.MATRIX_ORACLE_ADMIN_USER_ID
  }

  get #login() {
    const { MATRIX_ORACLE_ADMIN_USER_ID: user, MATRIX_ORACLE_ADMIN_PASSWORD: password = '' } =
      this.#options.env
    return { user, password }
  }

  #data(type: string): Promise<Record<string, any> | undefined> {
    const { api } = this.#options
    return api.get(path`/user/${this.#userId}/account_data/${type}`).catch(orMissing)
  }

  async #kept(): Promise<Kept | undefined> {
    const { db, seal } = this.#options
    return keptRecovery(db, seal, this.#userId)
  }

  async #keep(kept: Kept): Promise<void> {
    const { db, seal } = this.#options
    const before = await this.#kept()
    const recovery = seal.seal(JSON.stringify({ ...before, ...kept }))
    await db
      .updateTable('messaging_account')
      .set({ recovery })
      .where('account', '=', this.#userId)
      .execute()
  }
}

/** What is remembered of an account's recovery; undefined where nothing was done, or another key sealed it. */
export async function keptRecovery(
  db: MessagingDatabase,
  seal: Seal,
  account: string,
): Promise<Kept | undefined> {
  const row = await db
    .selectFrom('messaging_account')
    .select('recovery')
    .where('account', '=', account)
    .executeTakeFirst()
  const text = row?.recovery ? seal.open(row.recovery) : undefined
  return text === undefined ? undefined : JSON.parse(text)
}

function orMissing(thrown: unknown): undefined {
  if (thrown instanceof ServerFault && thrown.status === 404) return undefined
  throw thrown
}
