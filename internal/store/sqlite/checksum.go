package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"modernc.org/sqlite"

	"github.com/coppice-dev/coppice/internal/store"
)

// checksum returns the checksum of a record, which is stored with it because the checks of SQLite
// find no damage within a value. It covers the key and the revision as well.
func checksum(key string, value []byte, rev store.Rev) int64 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli) // made once, by the first call
	sum := crc32.Update(0, castagnoli, []byte(key))
	sum = crc32.Update(sum, castagnoli, binary.BigEndian.AppendUint64(nil, uint64(rev)))
	return int64(crc32.Update(sum, castagnoli, value))
}

// The same function for SQL: coppice_sum(key, value, rev).
func init() {
	sqlite.MustRegisterDeterministicScalarFunction("coppice_sum", 3,
		func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			key, isText := args[0].(string)
			rev, isNumber := args[2].(int64)
			value, isBlob := args[1].([]byte)
			if !isText || !isNumber || !isBlob && args[1] != nil { // an empty blob may come as nil
				return int64(-1), nil
			}
			return checksum(key, value, store.Rev(rev)), nil
		})
}

// maxDamaged is the maximum number of damaged records whose keys are kept.
const maxDamaged = 100

// noteDamaged records the key of a record that was skipped because of its checksum.
func (s *Store) noteDamaged(key string) {
	s.damage.Lock()
	defer s.damage.Unlock()
	if len(s.damaged) < maxDamaged {
		s.damaged[key] = true
	}
}

// Damaged returns the keys of records, at most 100, that were found damaged by reads since the
// store was opened. Reads skip them as if they were deleted. Repair removes them.
func (s *Store) Damaged() []string {
	s.damage.Lock()
	defer s.damage.Unlock()
	return slices.Sorted(maps.Keys(s.damaged))
}

// Verify checks all records. The error is a *FileError that names some of the damaged ones.
func (s *Store) Verify(ctx context.Context) error {
	s.swap.RLock()
	defer s.swap.RUnlock()
	if s.readers == nil {
		return nil
	}
	return verify(ctx, s.readers, s.path)
}

func verify(ctx context.Context, db querier, path string) (err error) {
	defer func() {
		if err != nil {
			err = diagnose(path, "checking", err)
		}
	}()
	rows, err := db.QueryContext(ctx, `SELECT key FROM record WHERE sum <> coppice_sum(key, value, rev)`)
	if err != nil {
		return err
	}
	defer rows.Close()
	n, named := 0, []string{}
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return err
		}
		if n++; n <= 5 {
			named = append(named, fmt.Sprintf("%.200q", key))
		}
	}
	if err := rows.Err(); err != nil || n == 0 {
		return err
	}
	what := fmt.Sprintf("%d records are not what was written: %s", n, strings.Join(named, ", "))
	if n == 1 {
		what = fmt.Sprintf("record %s is not what was written", named[0])
	} else if n > len(named) {
		what += ", ..."
	}
	return &FileError{Path: path, Kind: Damaged, Problem: what, Err: errChecksum}
}

var errChecksum = errors.New("the checksum of a record is wrong")
