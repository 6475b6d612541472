import { checkpointMigrations } from './agent/state/checkpoint-tables.ts'
import { auditMigrations } from './audit/tables.ts'
import { delegationMigrations } from './auth/grants/delegations.ts'
import { grantsMigration } from './auth/grants/grants.ts'
import { keysMigration } from './auth/personal/tables.ts'
import { fileMigrations } from './files/tables.ts'
import { idempotencyMigration } from './http/limits/idempotency.ts'
import { erasuresMigration } from './kept/tables.ts'
import { jobsMigration, jobTracesMigration, upTimesMigration } from './jobs/tables.ts'
import { leasesMigration } from './leases/tables.ts'
import { noticesMigration } from './notices/tables.ts'
import { storageDaysMigration } from './retention/growth.ts'
import { kernelNamesMigration } from './store/kernel-names.ts'
import { roomNamesMigration, roomStateMigration } from './store/room-state.ts'
import { jobFormsMigration } from './turns/stored-version.ts'
import { runMigrations } from './turns/journal/tables.ts'

/** The kernel's own tables, by owner: each owner has a history of migrations of its own. */
export const kernelMigrations = {
  kernel: {
    '001-idempotency': idempotencyMigration,
    ...delegationMigrations,
    '002-room-state': roomStateMigration,
    '003-kernel-names': kernelNamesMigration,
    '004-grants': grantsMigration,
    '005-jobs': jobsMigration,
    '006-room-names': roomNamesMigration,
    '007-notices': noticesMigration,
    '008-job-up-times': upTimesMigration,
    '009-leases': leasesMigration,
    '010-erasures': erasuresMigration,
    '011-job-forms': jobFormsMigration,
    '012-storage-days': storageDaysMigration,
    '013-keys': keysMigration,
    '014-job-traces': jobTracesMigration,
  },
  'kernel-runs': runMigrations,
  'kernel-files': fileMigrations,
  'kernel-audit': auditMigrations,
  'kernel-checkpoints': checkpointMigrations,
}
