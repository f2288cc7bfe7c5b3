use super::*;

fn write(disk: &SimulatedDisk, name: &str, bytes: &[u8]) -> SimulatedFile {
    let mut file = disk.create(name, bytes.len() as u64).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

fn synced(disk: &SimulatedDisk, name: &str, bytes: &[u8]) -> SimulatedFile {
    let mut file = write(disk, name, bytes);
    file.sync().unwrap();
    disk.sync_names().unwrap();
    file
}

#[test]
fn what_was_synced_survives_every_crash_and_what_was_not_some() {
    let (mut whole, mut torn, mut gone) = (0, 0, 0);
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        let mut file = synced(&disk, "a", &[1; 2000]);
        file.write_at(700, &[2; 1000]).unwrap();
        assert_eq!(disk.bytes_of("a").unwrap()[700], 2, "a process sees what it wrote");
        disk.crash();
        assert!(file.read_at(0, &mut [0]).is_err(), "the file was closed");
        let bytes = disk.bytes_of("a").unwrap();
        assert!(bytes.len() == 2000 && bytes[..700] == [1; 700] && bytes[1700..] == [1; 300]);
        match bytes[700..1700].iter().filter(|byte| **byte == 2).count() {
            0 => gone += 1,
            1000 => whole += 1,
            _ => torn += 1,
        }
    }
    assert!(whole > 20 && torn > 20 && gone > 20, "{whole} {torn} {gone}");
}

#[test]
fn names_survive_once_synced_and_a_replaced_file_is_one_of_two() {
    let mut seen = [0; 2];
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        synced(&disk, "a", b"old");
        let mut new = write(&disk, "a.new", b"new");
        new.sync().unwrap();
        disk.rename("a.new", "a").unwrap();
        disk.crash();
        let bytes = disk.bytes_of("a").unwrap();
        assert!(bytes == b"old" || bytes == b"new");
        seen[usize::from(bytes == b"new")] += 1;
    }
    assert!(seen.iter().all(|times| *times > 20), "{seen:?}");
}

#[test]
fn after_a_failed_sync_a_later_one_succeeds_and_keeps_nothing_of_what_was_lost() {
    let mut lost = 0;
    for seed in 0..50 {
        let disk = SimulatedDisk::new(seed);
        let mut file = synced(&disk, "a", b"old");
        disk.inject(Fault::FailSync, 0);
        file.write_at(0, b"new").unwrap();
        assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
        file.sync().unwrap();
        assert_eq!(disk.bytes_of("a").unwrap(), b"new", "the process sees it still");
        disk.crash();
        lost += u32::from(disk.bytes_of("a").unwrap() != b"new");
    }
    assert!(lost > 10, "{lost}");
}

#[test]
fn a_lost_write_a_misdirected_one_and_a_lying_sync_show_after_a_crash() {
    for fault in [Fault::LoseWrite, Fault::MisdirectWrite, Fault::LieAboutSync] {
        let lost = (0..50).filter(|&seed| {
            let disk = SimulatedDisk::new(seed);
            let mut file = synced(&disk, "a", &[1; 4096]);
            disk.inject(fault, 0);
            file.write_at(512, &[2; 512]).unwrap();
            file.sync().unwrap();
            assert_eq!(disk.bytes_of("a").unwrap()[512..1024], [2; 512], "the process sees it");
            disk.crash();
            disk.bytes_of("a").unwrap()[512..1024] != [2; 512]
        });
        assert!(lost.count() > 10, "{fault:?}");
    }
}

#[test]
fn faults_befall_the_call_that_they_were_asked_for() {
    let disk = SimulatedDisk::new(1);
    let file = synced(&disk, "a", &[7; 100]);
    disk.inject(Fault::FailRead, 1);
    disk.inject(Fault::CorruptRead, 0);
    let mut buffer = [0; 200];
    assert_eq!(file.read_at(0, &mut buffer).unwrap(), 100);
    assert_eq!(buffer.iter().filter(|byte| **byte == 7).count(), 99);
    assert!(file.read_at(0, &mut buffer).is_err());
    assert_eq!(file.read_at(90, &mut buffer).unwrap(), 10);
    disk.inject_always(Fault::FailNames);
    assert!(disk.open("a").is_err() && disk.remove("a").is_err() && disk.rename("a", "b").is_err());
    disk.heal();
    disk.open("a").unwrap();
    disk.spoil("a", 3, 1);
    assert_eq!(disk.bytes_of("a").unwrap()[3], 6);
}

#[test]
fn a_full_disk_refuses_what_is_new_and_takes_what_was_reserved() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(Some(1000));
    let mut a = disk.create("a", 900).unwrap();
    let full = |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::StorageFull;
    assert!(
        full(disk.create("b", 101).map(drop)) && full(a.write_at(900, &[1; 101])) && full(a.set_len(1001))
    );
    a.write_at(0, &[1; 900]).unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 100);
    disk.remove("a").unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 100, "it is open");
    drop(a);
    assert_eq!(disk.free_bytes().unwrap(), 1000);
}

#[test]
fn power_fails_in_the_call_asked_for_and_nothing_works_until_the_crash() {
    let disk = SimulatedDisk::new(1);
    disk.fail_power(2);
    let mut file = write(&disk, "a", b"x");
    assert!(disk.is_powered() && file.sync().is_err() && !disk.is_powered());
    assert!(disk.names().is_err() && disk.create("b", 1).is_err() && file.read_at(0, &mut [0]).is_err());
    disk.crash();
    disk.create("b", 1).unwrap();
    assert_eq!(disk.changes(), 4);
}
