import type { OracleClient } from '../core/client.ts'
import { OracleError, toOracleError } from '../core/error.ts'
import type { EngineSnapshot, MemoryMode } from '../core/memory-engine.ts'
import type { Overrides } from '../core/records.ts'
import type { Call } from '../core/request.ts'
import { OracleRoom } from './oracle-room.ts'

/** The ways to rule whether an oracle remembers its user. */
export type MemoryEngineCalls = {
  read(): Promise<void>
  enableMemoryEngine(engineUserId?: string): Promise<void>
  inviteUser(userId: string): Promise<void>
  setMode(mode: MemoryMode): Promise<void>
}

const lacking = (plugin: string, purpose: string) =>
  new OracleError(
    'plugin_not_available',
    `${purpose} needs the "${plugin}" plugin, which is not available.`,
  )

/** What the oracle itself says of its memory. */
function oracleOf(client: OracleClient, oracleDid: string, overrides?: Overrides) {
  const facts = async () => {
    const { memory } = await client.request<{ memory?: { engineUserId?: string } }>(
      oracleDid,
      '/.well-known/oracle.json',
      {},
      overrides,
    )
    if (!memory) throw lacking('memory', 'Memory')
    return memory
  }
  const settings = async (call: Call) => {
    const { mode } = await client.request<{ mode: MemoryMode }>(
      oracleDid,
      '/memory/settings',
      call,
      overrides,
    )
    return { mode }
  }
  return { facts, settings }
}

/** Rules the memory of an oracle: the switch is at the oracle, and accounts of others are invited at the messaging server. */
export function open(
  client: OracleClient,
  [oracleDid, overrides]: readonly [oracleDid: string, overrides?: Overrides],
  tell: (part: Partial<EngineSnapshot>) => void,
): MemoryEngineCalls {
  const room = new OracleRoom(client.wallet, oracleDid)
  const { hasAccount } = room

  const { facts, settings } = oracleOf(client, oracleDid, overrides)

  const choose = async (chosen: MemoryMode) => {
    tell(await settings({ method: 'PUT', body: { mode: chosen } }))
  }
  const readRoom = async () => {
    if (!hasAccount) return tell({ isLoadingOracleRoomId: false, isLoadingMembers: false })
    try {
      const oracleRoomId = await room.id()
      tell({ oracleRoomId: oracleRoomId ?? null, isLoadingOracleRoomId: false })
      tell({ members: oracleRoomId === undefined ? [] : await room.members() })
    } finally {
      tell({ isLoadingOracleRoomId: false, isLoadingMembers: false })
    }
  }
  const invite = async (userId: string) => {
    if (!hasAccount) throw lacking('messaging', 'Inviting an account')
    await room.inviteAccount(userId)
  }
  const carry = async (work: () => Promise<void>) => {
    tell({ error: null })
    try {
      await work()
    } catch (thrown) {
      const error = toOracleError(thrown)
      tell({ error })
      throw error
    }
  }

  return {
    read: () =>
      carry(async () => {
        await facts()
        tell(await settings({}))
        await readRoom()
      }).catch(() => tell({ isLoadingOracleRoomId: false, isLoadingMembers: false })),

    enableMemoryEngine: (engineUserId) =>
      carry(async () => {
        tell({ isLoadingMemoryEngine: true })
        try {
          const own = await facts()
          if (!engineUserId || engineUserId === own.engineUserId) return await choose('on')
          await invite(engineUserId)
          await room.setPower(engineUserId, 50)
          await readRoom()
        } finally {
          tell({ isLoadingMemoryEngine: false })
        }
      }),

    inviteUser: (userId) =>
      carry(async () => {
        tell({ isInvitingUser: true })
        try {
          await invite(userId)
          await readRoom()
        } finally {
          tell({ isInvitingUser: false })
        }
      }),

    setMode: (mode) =>
      carry(async () => {
        await facts()
        await choose(mode)
      }),
  }
}
