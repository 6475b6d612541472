import { checkpointMigrations } from './agent/state/checkpoint-tables.ts'
import { auditMigrations } from './audit/tables.ts'
import { delegationMigrations } from './auth/grants/delegations.ts'
import { grantsMigration } from './auth/grants/grants.ts'
import { idempotencyMigration } from './http/limits/idempotency.ts'
import { kernelNamesMigration } from './store/kernel-names.ts'
import { roomStateMigration } from './store/room-state.ts'
import { runMigrations } from './turns/journal/tables.ts'

/** The kernel's own tables, by owner: each of these has a history of its own. */
export const kernelMigrations = {
  kernel: {
    '001-idempotency': idempotencyMigration,
    ...delegationMigrations,
    '002-room-state': roomStateMigration,
    '003-kernel-names': kernelNamesMigration,
    '004-grants': grantsMigration,
  },
  'kernel-runs': runMigrations,
  'kernel-audit': auditMigrations,
  'kernel-checkpoints': checkpointMigrations,
}
